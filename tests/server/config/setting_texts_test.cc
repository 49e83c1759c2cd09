// What an operator is told of each faulty setting, word by word.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "server/config/config_file.h"
#include "server/config/flags.h"
#include "tests/scratch_path.h"

namespace beamline::setting_texts_test {
namespace {

struct Fault {
  std::vector<const char*> arguments;
  std::string text;
};

void ExpectTexts(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    std::vector<const char*> arguments = {"beamline-server"};
    arguments.insert(arguments.end(), fault.arguments.begin(), fault.arguments.end());
    const auto line = ParseCommandLine(static_cast<int>(arguments.size()), arguments.data(), {});
    EXPECT_EQ(std::string(line.status().message()), fault.text);
  }
}

TEST(SettingTexts, OfTheServer) {
  ExpectTexts({
      {{"--threads", "-1"}, "--threads is '-1'; accepted: 0 to 4096"},
      {{"--threads", "4097"}, "--threads is '4097'; accepted: 0 to 4096"},
      {{"--threads", "x"}, "--threads is 'x'; accepted: 0 to 4096"},
      {{"--tokenizer-threads", "0"}, "--tokenizer-threads is '0'; accepted: 1 to 256"},
      {{"--tokenizer-threads", "257"}, "--tokenizer-threads is '257'; accepted: 1 to 256"},
      {{"--writer-threads", "-1"}, "--writer-threads is '-1'; accepted: 0 to 256"},
      {{"--gpu-memory-fraction", "1"}, "--gpu-memory-fraction is '1'; accepted: 0.01 to 0.99"},
      {{"--gpu-memory-fraction", "nan"}, "--gpu-memory-fraction is 'nan'; accepted: 0.01 to 0.99"},
      {{"--gpu-memory-bytes", "-1"},
       "--gpu-memory-bytes is '-1'; accepted: 0 to 1125899906842624, or with a unit as 64MiB"},
      {{"--max-concurrent-requests", "0"},
       "--max-concurrent-requests is '0'; accepted: 1 to 1048576"},
      {{"--tokens-per-second", "1000000001"},
       "--tokens-per-second is '1000000001'; accepted: 0 to 1000000000"},
      {{"--tokens-per-second", "-1"}, "--tokens-per-second is '-1'; accepted: 0 to 1000000000"},
      {{"--token-burst", "1000000000001"},
       "--token-burst is '1000000000001'; accepted: 0 to 1000000000000"},
      {{"--max-outstanding-per-stream", "1048577"},
       "--max-outstanding-per-stream is '1048577'; accepted: 1 to 1048576"},
      {{"--max-receive-bytes", "1023"},
       "--max-receive-bytes is '1023'; accepted: 1024 to 2147483647, or with a unit as 64MiB"},
      {{"--max-send-bytes", "2147483648"},
       "--max-send-bytes is '2147483648'; accepted: 1024 to 2147483647, or with a unit as 64MiB"},
      {{"--max-unfinished-bytes", "-1"},
       "--max-unfinished-bytes is '-1'; accepted: 0 to 1125899906842624, or with a unit as 64MiB"},
      {{"--unfinished-timeout-ms", "9"},
       "--unfinished-timeout-ms is '9'; accepted: 10 to 86400000, or with a unit as 30s"},
      {{"--max-connections", "0"}, "--max-connections is '0'; accepted: 1 to 1048576"},
      {{"--max-connections-per-peer", "1048577"},
       "--max-connections-per-peer is '1048577'; accepted: 1 to 1048576"},
      {{"--handshake-timeout-ms", "0"},
       "--handshake-timeout-ms is '0'; accepted: 1 to 3600000, or with a unit as 30s"},
      {{"--max-handshakes", "0"}, "--max-handshakes is '0'; accepted: 1 to 1048576"},
      {{"--max-connection-idle-ms", "86400001"},
       "--max-connection-idle-ms is '86400001'; accepted: 0 to 86400000, or with a unit as 30s"},
      {{"--max-connection-age-ms", "-1"},
       "--max-connection-age-ms is '-1'; accepted: 0 to 86400000, or with a unit as 30s"},
      {{"--min-ping-interval-ms", "-1"},
       "--min-ping-interval-ms is '-1'; accepted: 0 to 3600000, or with a unit as 30s"},
      {{"--drain-timeout-ms", "x"},
       "--drain-timeout-ms is 'x'; accepted: 0 to 86400000, or with a unit as 30s"},
  });
}

TEST(SettingTexts, OfDevicesAndAddresses) {
  ExpectTexts({
      {{"--device", "tpu"}, "--device is 'tpu'; accepted: auto, cpu, cuda, cuda:N"},
      {{"--replicas", "0"}, "--replicas is '0'; accepted: auto, 1 to 64"},
      {{"--replicas", "two"}, "--replicas is 'two'; accepted: auto, 1 to 64"},
      {{"--rank", "64"}, "--rank is '64'; accepted: 0 to 63"},
      {{"--rank-timeout-ms", "0"},
       "--rank-timeout-ms is '0'; accepted: 1 to 86400000, or with a unit as 30s"},
      {{"--rank-address", "here"}, "--rank-address is 'here'; accepted: host:port, off"},
      {{"--on-device-fault", "go"}, "--on-device-fault is 'go'; accepted: exit, stay"},
      {{"--log-level", "all"}, "--log-level is 'all'; accepted: debug, info, warn, error, off"},
      {{"--listen", "here"}, "--listen is 'here'; accepted: host:port"},
      {{"--admin-listen", "here", "--model-root", "f"},
       "--admin-listen is 'here'; accepted: host:port, off"},
      {{"--admin-listen", "127.0.0.1:0"},
       "admin_listen is set, and model_root is empty; accepted: a folder"},
      {{"--protocols", "kserve,openai"},
       "--protocols is 'kserve,openai'; accepted: a list of kserve, tei"},
      {{"--http-paths", "metrics,health"},
       "--http-paths is 'metrics,health'; accepted: a list of metrics, version"},
      {{"--metrics-names", "vllm,triton"},
       "--metrics-names is 'vllm,triton'; accepted: a list of vllm"},
      {{"--http-listen", "on"}, "--http-listen is 'on'; accepted: host:port, auto, off"},
      {{"--health-listen", "here"}, "--health-listen is 'here'; accepted: host:port, off"},
      {{"--tls-certificate-file", "c"},
       "tls_certificate_file is set, and tls_key_file is empty; accepted: a file"},
      {{"--tls-key-file", "k"},
       "tls_key_file is set, and tls_certificate_file is empty; accepted: a file"},
      {{"--tls-client-ca-file", "a"},
       "tls_client_ca_file is set, and tls_certificate_file is empty; accepted: a file"},
      {{"--tls-require-client-certificate", "no"},
       "--tls-require-client-certificate is 'no'; accepted: true, false"},
      {{"--isolate-identities", "no"}, "--isolate-identities is 'no'; accepted: true, false"},
      {{"--allow-unguarded-connections", "no"},
       "--allow-unguarded-connections is 'no'; accepted: true, false"},
      {{"--metrics-listen", "::1"}, "--metrics-listen is '::1'; accepted: host:port, off"},
  });
}

TEST(SettingTexts, OfNamesThatOtherServersHave) {
  ExpectTexts({
      {{"--model", "m=f,max_num_seqs=8"},
       "--model 'm=f,max_num_seqs=8': there is no setting 'max_num_seqs'; it is called "
       "'max_sequences' here"},
      {{"--port", "8000"}, "there is no option '--port'; it is called --listen here"},
      {{"--gpu-memory-utilization=0.5"},
       "there is no option '--gpu-memory-utilization'; it is called --gpu-memory-fraction here"},
      {{"--tensor-parallel-size", "2"},
       "there is no option '--tensor-parallel-size'; it is a model's setting: --model "
       "NAME=FOLDER,tensor_parallel=..."},
      {{"--max-sequences", "2"},
       "there is no option '--max-sequences'; it is a model's setting: --model "
       "NAME=FOLDER,max_sequences=..."},
  });
}

TEST(SettingTexts, OfAModel) {
  ExpectTexts({
      {{"--model", ""}, "--model '': accepted: [name=]folder[,setting=value...]"},
      {{"--model", "=f"}, "--model '=f': accepted: [name=]folder[,setting=value...]"},
      {{"--model", "m="}, "--model 'm=': the folder is empty"},
      {{"--model", "m=f,"}, "--model 'm=f,': accepted: [name=]folder[,setting=value...]"},
      {{"--model", "m=f,x=1"}, "--model 'm=f,x=1': there is no setting 'x'"},
      {{"--model", "m=f,max_batch_token=1"},
       "--model 'm=f,max_batch_token=1': there is no setting 'max_batch_token'; did you mean "
       "'max_batch_tokens'?"},
      {{"--model", "m=f,max_batch_tokens=15"},
       "--model 'm=f,max_batch_tokens=15': max_batch_tokens is '15'; accepted: 16 to 1048576"},
      {{"--model", "m=f,max_batch_tokens=1048577"},
       "--model 'm=f,max_batch_tokens=1048577': max_batch_tokens is '1048577'; accepted: 16 to "
       "1048576"},
      {{"--model", "m=f,max_sequences=0"},
       "--model 'm=f,max_sequences=0': max_sequences is '0'; accepted: 1 to 65535"},
      {{"--model", "m=f,max_sequences=65536"},
       "--model 'm=f,max_sequences=65536': max_sequences is '65536'; accepted: 1 to 65535"},
      {{"--model", "m=f,cache_bytes=-1"},
       "--model 'm=f,cache_bytes=-1': cache_bytes is '-1'; accepted: 0 to 1125899906842624, or "
       "with a unit as 64MiB"},
      {{"--model", "m=f,cache_bytes=1125899906842625"},
       "--model 'm=f,cache_bytes=1125899906842625': cache_bytes is '1125899906842625'; accepted: 0 "
       "to 1125899906842624, or with a unit as 64MiB"},
      {{"--model", "m=f,prefix_cache=1"},
       "--model 'm=f,prefix_cache=1': prefix_cache is '1'; accepted: true, false"},
      {{"--model", "m=f,speculative_tokens=17"},
       "--model 'm=f,speculative_tokens=17': speculative_tokens is '17'; accepted: 0 to 16"},
      {{"--model", "m=f,replicas=65"},
       "--model 'm=f,replicas=65': replicas is '65'; accepted: auto, 1 to 64"},
      {{"--model", "m=f,devices=cuda:0,tpu,replicas=2"},
       "--model 'm=f,devices=cuda:0,tpu,replicas=2': devices is 'cuda:0,tpu'; accepted: a list of "
       "cpu, cuda:N"},
      {{"--model", "m=f,device=cpu,1"},
       "--model 'm=f,device=cpu,1': accepted: [name=]folder[,setting=value...]"},
      {{"--model", "m=f,tensor_parallel=0"},
       "--model 'm=f,tensor_parallel=0': tensor_parallel is '0'; accepted: 1 to 8"},
      {{"--model", "m=f,tensor_parallel=9"},
       "--model 'm=f,tensor_parallel=9': tensor_parallel is '9'; accepted: 1 to 8"},
      {{"--model", "m=f,pipeline_parallel=0"},
       "--model 'm=f,pipeline_parallel=0': pipeline_parallel is '0'; accepted: 1 to 8"},
      {{"--model", "m=f,pipeline_parallel=9"},
       "--model 'm=f,pipeline_parallel=9': pipeline_parallel is '9'; accepted: 1 to 8"},
      {{"--model", "m=f,max_queued_requests=0"},
       "--model 'm=f,max_queued_requests=0': max_queued_requests is '0'; accepted: 1 to 1048576"},
      {{"--model", "m=f,max_queued_requests=1048577"},
       "--model 'm=f,max_queued_requests=1048577': max_queued_requests is '1048577'; accepted: 1 "
       "to 1048576"},
      {{"--model", "m=f,warm_up=maybe"},
       "--model 'm=f,warm_up=maybe': warm_up is 'maybe'; accepted: auto, true, false"},
      {{"--model", "m=f,dtype=int8"},
       "--model 'm=f,dtype=int8': dtype is 'int8'; accepted: auto, float32, bfloat16, float16"},
      {{"--model", "m=f,max_model_len=-1"},
       "--model 'm=f,max_model_len=-1': max_model_len is '-1'; accepted: 0 to 1048576"},
      {{"--model", "m=f,max_model_len=1048577"},
       "--model 'm=f,max_model_len=1048577': max_model_len is '1048577'; accepted: 0 to 1048576"},
      {{"--model", "none=f"},
       "model is named 'none', which metrics call no model; accepted: another name"},
      {{"--model", "m@2=f"}, "model is named 'm@2'; accepted: a name without @"},
      {{"--model", "m=f,version=0"},
       "--model 'm=f,version=0': version is '0'; accepted: 1 to 1073741824"},
      {{"--model", "m=f,device=gpu"},
       "--model 'm=f,device=gpu': device is 'gpu'; accepted: auto, cpu, cuda, cuda:N"},
  });
}

TEST(SettingTexts, OfModelNames) {
  ExpectTexts({
      {{"--model", "m=f,version=2", "--model", "m=g,version=2"}, "model 'm' is given twice"},
      {{"--model", "m\u202e=f"},
       "model is named 'm<U+202E>'; accepted: UTF-8 without control characters and others that do "
       "not show"},
      {{"--model", "m=f", "--model", "m=g"}, "model 'm' is given twice"},
  });
}

TEST(SettingTexts, OfTheQueue) {
  ExpectTexts({
      {{"--model", "m=f,max_gap_ms=-1"},
       "--model 'm=f,max_gap_ms=-1': max_gap_ms is '-1'; accepted: 0 to 60000, or with a unit as "
       "30s"},
      {{"--model", "m=f,max_gap_ms=60001"},
       "--model 'm=f,max_gap_ms=60001': max_gap_ms is '60001'; accepted: 0 to 60000, or with a "
       "unit as 30s"},
      {{"--model", "m=f,max_queued_tokens=-1"},
       "--model 'm=f,max_queued_tokens=-1': max_queued_tokens is '-1'; accepted: 0 to "
       "1125899906842624"},
      {{"--model", "m=f,max_queued_tokens=1125899906842625"},
       "--model 'm=f,max_queued_tokens=1125899906842625': max_queued_tokens is "
       "'1125899906842625'; accepted: 0 to 1125899906842624"},
      {{"--max-priority", "101"}, "--max-priority is '101'; accepted: -100 to 100"},
      {{"--max-priority", "-101"}, "--max-priority is '-101'; accepted: -100 to 100"},
  });
}

struct FileFault {
  std::string content;
  std::string text;  // behind the file's name
};

TEST(SettingTexts, OfTheFile) {
  const std::vector<FileFault> faults = {
      {"listen: [1]\n", ":1: listen is a list; accepted: host:port"},
      {"threads: {a: 1}\n", ":1: threads is a mapping; accepted: 0 to 4096"},
      {"threads:\n", ":1: threads has no value; accepted: 0 to 4096"},
      {"model_root: ~\n", ":1: model_root has no value; accepted: a single value"},
      {"metrics_listen: here\n", ":1: metrics_listen is 'here'; accepted: host:port, off"},
      {"threads: many\n", ":1: threads is 'many'; accepted: 0 to 4096"},
      {"threads: 1\nthreads: 2\n", ":2: threads is given twice"},
      {"thread: 1\n", ":1: there is no setting 'thread'; did you mean 'threads'?"},
      {"port: 1\n", ":1: there is no setting 'port'; it is called 'listen' here"},
      {"model: a\n", ":1: there is no setting 'model'; models is a list of them"},
      {"models: [{name: a, path: b}]\n",
       ":1: there is no setting 'path'; it is called 'folder' here"},
      {"models: []\n",
       ":1: models is empty; accepted: at least one, or no such key for the demo models"},
      {"models: 3\n", ":1: models must be a list"},
      {"models: [3]\n", ":1: a model must have a name and a folder"},
      {"models: [{name: a, folder: b, warm_up: 1}]\n",
       ":1: warm_up is '1'; accepted: auto, true, false"},
      {"models: [{name: a, folder: b, max_sequences: 65536}]\n",
       ":1: max_sequences is '65536'; accepted: 1 to 65535"},
      {"- a\n", ":1: must be a mapping of settings"},
      {"? [a]\n: 1\n", ":1: a setting's name must be a single word"},
  };
  const std::string path = ScratchPath("server.yaml");
  for (const FileFault& fault : faults) {
    std::ofstream(path) << fault.content;
    ServerConfig config;
    EXPECT_EQ(std::string(LoadConfigFile(path, config).message()), path + fault.text);
  }
}

}  // namespace
}  // namespace beamline::setting_texts_test
