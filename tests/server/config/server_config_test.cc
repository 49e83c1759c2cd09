#include "server/config/server_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace beamline::server_config_test {
namespace {

using testing::HasSubstr;

Setting Find(std::vector<Setting> settings, const std::string& name) {
  const auto it = std::find_if(settings.begin(), settings.end(),
                               [&name](const Setting& s) { return s.name == name; });
  EXPECT_NE(it, settings.end()) << name;
  return *it;
}

TEST(Settings, NumbersHaveRanges) {
  ServerConfig config;
  const Setting threads = Find(Settings(config), "threads");
  EXPECT_TRUE(SetFromText(threads, "7").ok());
  EXPECT_EQ(config.threads, 7);
  for (const char* bad : {"-1", "4097", "", "3x", "1.5", " 3", "99999999999999999999"}) {
    const absl::Status status = SetFromText(threads, bad);
    EXPECT_FALSE(status.ok()) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("accepted: 0 to 4096"));
  }
  EXPECT_EQ(config.threads, 7);
}

TEST(Settings, SpeculationIsOffAndBounded) {
  ModelOptions model;
  const Setting tokens = Find(Settings(model), "speculative_tokens");
  EXPECT_EQ(ToText(tokens), "0");
  EXPECT_TRUE(SetFromText(tokens, "16").ok());
  EXPECT_EQ(model.speculative_tokens, 16);
  EXPECT_THAT(std::string(SetFromText(tokens, "17").message()), HasSubstr("accepted: 0 to 16"));
}

TEST(Settings, SequencesEndWhereAGpusGridDoes) {
  ModelOptions model;
  const Setting sequences = Find(Settings(model), "max_sequences");
  EXPECT_TRUE(SetFromText(sequences, "65535").ok());
  EXPECT_THAT(std::string(SetFromText(sequences, "65536").message()),
              HasSubstr("max_sequences is '65536'; accepted: 1 to 65535"));
}

TEST(Settings, FractionsHaveRanges) {
  ServerConfig config;
  const Setting fraction = Find(Settings(config), "gpu_memory_fraction");
  EXPECT_EQ(ToText(fraction), "0.9");
  for (const char* good : {"0.01", "0.5", "5e-1", "0.99"}) {
    EXPECT_TRUE(SetFromText(fraction, good).ok()) << good;
  }
  EXPECT_EQ(config.gpu_memory.fraction, 0.99);
  for (const char* bad : {"1", "0", "0.009", "-0.5", "", "half", "0.5x", "nan", "inf", " 0.5"}) {
    const absl::Status status = SetFromText(fraction, bad);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("gpu_memory_fraction is '") +
                                                         bad + "'; accepted: 0.01 to 0.99"));
  }
  EXPECT_EQ(config.gpu_memory.fraction, 0.99);
  const Setting bytes = Find(Settings(config), "gpu_memory_bytes");
  EXPECT_TRUE(SetFromText(bytes, "40000000000").ok());
  EXPECT_EQ(config.gpu_memory.bytes, 40000000000);
  EXPECT_THAT(std::string(SetFromText(bytes, "-1").message()),
              HasSubstr("accepted: 0 to 1125899906842624"));
}

TEST(Settings, ChoicesAndTypes) {
  ServerConfig config;
  EXPECT_TRUE(SetFromText(Find(Settings(config), "device"), "cpu").ok());
  EXPECT_FALSE(SetFromText(Find(Settings(config), "device"), "tpu").ok());
  for (const char* good : {"cuda", "cuda:0", "cuda:15"}) {
    EXPECT_TRUE(SetFromText(Find(Settings(config), "device"), good).ok()) << good;
    EXPECT_EQ(config.device, good);
  }
  for (const char* bad :
       {"cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda:N", "cpu:0", "cuda:99999999999"}) {
    EXPECT_EQ(SetFromText(Find(Settings(config), "device"), bad).message(),
              "device is '" + std::string(bad) + "'; accepted: auto, cpu, cuda, cuda:N");
  }
  EXPECT_EQ(config.device, "cuda:15");
  ModelOptions model;
  EXPECT_EQ(ToText(Find(Settings(model), "dtype")), "auto");
  EXPECT_TRUE(SetFromText(Find(Settings(model), "dtype"), "bfloat16").ok());
  EXPECT_EQ(model.dtype, DType::kBFloat16);
  EXPECT_EQ(ToText(Find(Settings(model), "dtype")), "bfloat16");
  EXPECT_THAT(std::string(SetFromText(Find(Settings(model), "dtype"), "int3").message()),
              HasSubstr("accepted: auto, float32, bfloat16, float16"));
  EXPECT_TRUE(SetFromText(Find(Settings(model), "dtype"), "auto").ok());
  EXPECT_EQ(model.dtype, std::nullopt);
}

TEST(Settings, WhatWasRemovedIsTold) {
  ServerConfig config;
  EXPECT_THAT(SettingHint("poll_spin_us", Settings(config)), HasSubstr("it was removed"));
  EXPECT_EQ(SettingHint("nothing_like_it_at_all", Settings(config)), "");
}

TEST(Settings, SizesAndTimesHaveUnits) {
  ServerConfig config;
  const Setting bytes = Find(Settings(config), "gpu_memory_bytes");
  const Setting time = Find(Settings(config), "drain_timeout_ms");
  const std::pair<const char*, int64_t> sizes[] = {{"0B", 0},
                                                   {"4GiB", int64_t{4} << 30},
                                                   {"1.5GiB", 1610612736},
                                                   {"10MB", 10'000000},
                                                   {"1kB", 1000},
                                                   {"0.5KiB", 512}};
  for (const auto& [text, value] : sizes) {
    EXPECT_TRUE(SetFromText(bytes, text).ok()) << text;
    EXPECT_EQ(config.gpu_memory.bytes, value) << text;
  }
  const std::pair<const char*, int32_t> times[] = {
      {"30s", 30000},   {"500ms", 500},  {"2min", 120000},   {"24h", 86400000}, {"0.25s", 250},
      {"16.1s", 16100}, {"2.01s", 2010}, {"4.1min", 246000}, {"1.1h", 3960000}};
  for (const auto& [text, value] : times) {
    EXPECT_TRUE(SetFromText(time, text).ok()) << text;
    EXPECT_EQ(config.drain_timeout_ms, value) << text;
  }
  for (const char* bad : {"4 GiB", "GiB", "4gib", "4G", "0.3B", "-1GiB", "1e3kB", "nanB", "4s",
                          "2PiB", "9999999TiB", "4GiBs", "0x4B", "+4B", ""}) {
    EXPECT_EQ(SetFromText(bytes, bad).message(),
              "gpu_memory_bytes is '" + std::string(bad) +
                  "'; accepted: 0 to 1125899906842624, or with a unit as 64MiB");
  }
  for (const char* bad : {"25h", "1us", "30S", "4GiB", "-1s"}) {
    EXPECT_FALSE(SetFromText(time, bad).ok()) << bad;
  }
  // Others have none.
  EXPECT_EQ(SetFromText(Find(Settings(config), "threads"), "4GiB").message(),
            "threads is '4GiB'; accepted: 0 to 4096");
  ModelOptions model;
  EXPECT_TRUE(SetFromText(Find(Settings(model), "cache_bytes"), "2GiB").ok());
  EXPECT_EQ(model.cache_bytes, int64_t{2} << 30);
}

TEST(Settings, AddressesMayLackTheirHost) {
  ServerConfig config;
  const Setting listen = Find(Settings(config), "listen");
  EXPECT_TRUE(SetFromText(listen, ":50051").ok());
  EXPECT_EQ(config.listen, "0.0.0.0:50051");
  EXPECT_TRUE(SetFromText(listen, "8000").ok());
  EXPECT_EQ(config.listen, "127.0.0.1:8000");
  for (const char* bad : {":", ":x", "65536", ":65536", "", "80a"}) {
    EXPECT_EQ(SetFromText(listen, bad).message(),
              "listen is '" + std::string(bad) + "'; accepted: host:port");
  }
  // One to connect to is whole.
  EXPECT_FALSE(SetFromText(Find(Settings(config), "otlp_endpoint"), ":4317").ok());
}

TEST(Settings, TypesHaveOtherNames) {
  ModelOptions model;
  const std::pair<const char*, DType> names[] = {{"half", DType::kFloat16},
                                                 {"fp16", DType::kFloat16},
                                                 {"bf16", DType::kBFloat16},
                                                 {"fp32", DType::kFloat32},
                                                 {"float", DType::kFloat32}};
  for (const auto& [text, type] : names) {
    EXPECT_TRUE(SetFromText(Find(Settings(model), "dtype"), text).ok()) << text;
    EXPECT_EQ(model.dtype, type) << text;
  }
  EXPECT_TRUE(SetFromText(Find(Settings(model), "weights"), "bf16").ok());
  EXPECT_EQ(model.weights, "bfloat16");
}

TEST(Settings, DefaultsAreAccepted) {
  ServerConfig config;
  for (const Setting& setting : Settings(config)) {
    EXPECT_TRUE(SetFromText(setting, ToText(setting)).ok()) << setting.name;
    EXPECT_FALSE(setting.help.empty()) << setting.name;
  }
  ModelOptions model;
  for (const Setting& setting : Settings(model)) {
    EXPECT_TRUE(SetFromText(setting, ToText(setting)).ok()) << setting.name;
  }
  EXPECT_TRUE(CheckConfig(config).ok());
}

TEST(HostPort, Parses) {
  EXPECT_EQ(ParseHostPort("listen", "127.0.0.1:0")->port, 0);
  EXPECT_EQ(ParseHostPort("listen", "[::1]:443")->host, "[::1]");
  for (const char* bad : {"", "localhost", ":80", "a:", "a:x", "a:-1", "a:65536", "a:80 ", "::1",
                          "::1:80", "http://a:80", "a b:80"}) {
    EXPECT_FALSE(ParseHostPort("listen", bad).ok()) << bad;
  }
}

TEST(CheckConfig, FindsWhatNoSingleSettingShows) {
  ServerConfig config;
  config.listen = "nowhere";
  EXPECT_THAT(std::string(CheckConfig(config).message()), HasSubstr("listen is 'nowhere'"));
  config = {};
  config.metrics_listen = "off";
  EXPECT_TRUE(CheckConfig(config).ok());
  config.models.resize(2);
  config.models[0].name = config.models[1].name = "m";
  config.models[0].folder = config.models[1].folder = "f";
  EXPECT_THAT(std::string(CheckConfig(config).message()), HasSubstr("'m' is given twice"));
  for (const char* bad : {"none", "a\nb", "\xFF", "a\u202Eb", "a\u0085b"}) {
    config.models[1].name = bad;
    EXPECT_THAT(std::string(CheckConfig(config).message()), HasSubstr("model is named '")) << bad;
  }
  // Versions of one name stand beside each other.
  config.models[1].name = "m";
  config.models[1].version = 2;
  EXPECT_TRUE(CheckConfig(config).ok());
  config.admin_listen = "127.0.0.1:1";
  EXPECT_THAT(std::string(CheckConfig(config).message()), HasSubstr("model_root is empty"));
  config.model_root = "/srv/models";
  EXPECT_TRUE(CheckConfig(config).ok());
  EXPECT_EQ(config.http_listen, kAutoHttp);
  config.http_listen = "nowhere";
  EXPECT_THAT(std::string(CheckConfig(config).message()), HasSubstr("http_listen is 'nowhere'"));
  config.http_listen = "127.0.0.1:1";
  EXPECT_EQ(CheckConfig(config).message(),
            "admin_listen is '127.0.0.1:1', which http_listen is too; accepted: an address of its "
            "own");
  config.http_listen = config.admin_listen = config.metrics_listen = "127.0.0.1:0";
  EXPECT_TRUE(CheckConfig(config).ok()) << "each gets another port";
  config.models.resize(1);
  config.models[0].folder.clear();
  EXPECT_THAT(std::string(CheckConfig(config).message()), HasSubstr("no folder"));
}

}  // namespace
}  // namespace beamline::server_config_test
