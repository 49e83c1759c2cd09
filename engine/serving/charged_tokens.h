// What a request has taken of the tokens that it is charged for, from when they are known until its
// answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "base/status.h"
#include "engine/api/request.h"
#include "engine/scheduling/job.h"

namespace beamline {

// One thread at a time.
class ChargedTokens {
 public:
  // Null: nothing is charged.
  explicit ChargedTokens(std::shared_ptr<TokenCharge> charge) : charge_(std::move(charge)) {}

  absl::Status Check() const { return charge_ == nullptr ? absl::OkStatus() : charge_->Check(); }
  // A request that is begun again keeps what it took.
  absl::Status Take(int64_t tokens) {
    if (charge_ == nullptr || taken_ > 0) return absl::OkStatus();
    BEAMLINE_RETURN_IF_ERROR(charge_->Take(tokens));
    taken_ = tokens;
    return absl::OkStatus();
  }
  // It is answered. Texts may be shorter than they were allowed to be; whatever else is answered
  // was read as a whole.
  template <typename Result>
  void Settle(const Result& result) {
    int64_t used = taken_;
    if constexpr (std::is_same_v<Result, GenerateResult>) {
      used = int64_t{result.usage.prompt_tokens} + result.usage.generated_tokens;
    }
    End(used);
  }
  void Settle(const absl::Status& error) {
    if (taken_ == 0) return;
    int64_t used = 0;
    if (const auto told = error.GetPayload(kUsedTokensPayload); told.has_value()) {
      if (!absl::SimpleAtoi(std::string(*told), &used)) used = 0;
    }
    End(used);
  }

 private:
  void End(int64_t used) {
    if (taken_ > 0) charge_->Settle(std::exchange(taken_, 0), used);
  }

  const std::shared_ptr<TokenCharge> charge_;
  int64_t taken_ = 0;
};

}  // namespace beamline
