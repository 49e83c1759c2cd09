#include "engine/loading/model_options_check.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "engine/api/model_settings.h"
#include "fmt/format.h"

namespace beamline::model_options_check_test {
namespace {

template <typename Number>
void ExpectRange(const ModelSetting& setting, Number ModelOptions::*member) {
  for (const auto& [value, accepted] : {std::pair(setting.min - 1, false),
                                        {setting.min, true},
                                        {setting.max, true},
                                        {setting.max + 1, false}}) {
    ModelOptions options;
    options.*member = static_cast<Number>(value);
    EXPECT_EQ(std::string(CheckModelOptions(options).message()),
              accepted ? ""
                       : fmt::format("{} is {}; accepted: {} to {}", setting.name, value,
                                     setting.min, setting.max));
  }
}

TEST(CheckModelOptions, KnowsTheRangeOfEachNumber) {
  int num_numbers = 0;
  for (const ModelSetting& setting : kModelSettings) {
    if (const auto* member = std::get_if<int32_t ModelOptions::*>(&setting.member)) {
      ExpectRange(setting, *member);
      ++num_numbers;
    } else if (const auto* large = std::get_if<int64_t ModelOptions::*>(&setting.member)) {
      ExpectRange(setting, *large);
      ++num_numbers;
    }
  }
  EXPECT_EQ(num_numbers, 11);
}

TEST(CheckModelOptions, KnowsTheChoices) {
  ModelOptions options;
  for (const char* good : {"auto", "true", "false"}) {
    options.warm_up = good;
    EXPECT_TRUE(CheckModelOptions(options).ok()) << good;
  }
  options.warm_up = "yes";
  EXPECT_EQ(std::string(CheckModelOptions(options).message()),
            "warm_up is 'yes'; accepted: auto, true, false");
}

// One more than the server's file and flags take, which the engine took.
TEST(CheckModelOptions, QueuesAsManyAsTheServerSays) {
  ModelOptions options;
  options.max_queued_requests = (1 << 20) + 1;
  EXPECT_EQ(std::string(CheckModelOptions(options).message()),
            "max_queued_requests is 1048577; accepted: 1 to 1048576");
}

}  // namespace
}  // namespace beamline::model_options_check_test
