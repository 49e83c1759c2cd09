#include "server/security/identities.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/field_error.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "openssl/crypto.h"
#include "openssl/evp.h"
#include "openssl/sha.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

constexpr char kSetting[] = "identity_file";
constexpr size_t kMostIdentityFileBytes = size_t{1} << 20;
constexpr size_t kMostTokens = 4096;  // each call compares with all
constexpr size_t kMostNameBytes = 128;
constexpr std::string_view kHashPrefix = "sha256:";
constexpr std::string_view kCertificate = "certificate";
constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kRate = "tokens_per_second=";
constexpr std::string_view kBurst = "token_burst=";

// Removes the first word from `line`, and returns it.
std::string_view TakeWord(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

template <typename Hash>
bool ReadHash(std::string_view text, Hash& hash) {
  if (!text.starts_with(kHashPrefix)) return false;
  text.remove_prefix(kHashPrefix.size());
  if (text.size() != 2 * hash.size()) return false;
  for (size_t i = 0; i < hash.size(); ++i) {
    const int high = HexDigit(text[2 * i]), low = HexDigit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    hash[i] = static_cast<unsigned char>(16 * high + low);
  }
  return true;
}

bool ReadRights(std::string_view text, Identity& identity) {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    if (word == "inference") {
      identity.may_infer = true;
    } else if (word == "admin") {
      identity.may_admin = true;
    } else {
      return false;
    }
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return identity.may_infer || identity.may_admin;
}

// The fault of a line's first two words; empty: none.
std::string FaultOf(const Identity& identity, bool has_rights, std::string_view rights) {
  if (identity.name.size() > kMostNameBytes || !IsPlainText(identity.name)) {
    return fmt::format("the name is '{}'; accepted: at most {} bytes of UTF-8 that show",
                       Shorten(identity.name), kMostNameBytes);
  }
  if (!has_rights) {
    return fmt::format("the rights are '{}'; accepted: inference, admin, or inference,admin",
                       Shorten(rights));
  }
  return "";
}

// Every call is hashed. OpenSSL's SHA256() looks up the algorithm and makes a context each time,
// which takes longer than the hash. So each thread keeps a context.
std::array<unsigned char, SHA256_DIGEST_LENGTH> Sha256(std::string_view text) {
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  static thread_local const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash = {};
  const bool is_hashed = algorithm != nullptr && context != nullptr &&
                         EVP_DigestInit_ex2(context.get(), algorithm, nullptr) == 1 &&
                         EVP_DigestUpdate(context.get(), text.data(), text.size()) == 1 &&
                         EVP_DigestFinal_ex(context.get(), hash.data(), nullptr) == 1;
  BEAMLINE_CHECK(is_hashed);
  return hash;
}

bool ReadNumber(std::string_view text, int64_t most, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 && number <= most;
}

// The fault of a line's quota; empty: none.
std::string ReadQuota(std::string_view line, std::optional<QuotaLimits>& quota) {
  QuotaLimits limits;
  bool has_rate = false, has_burst = false;
  for (std::string_view word = TakeWord(line); !word.empty(); word = TakeWord(line)) {
    const bool is_rate = word.starts_with(kRate);
    bool& is_given = is_rate ? has_rate : has_burst;
    const bool is_good =
        !is_given &&
        (is_rate ? ReadNumber(word.substr(kRate.size()), QuotaLimits::kMostTokensPerSecond,
                              limits.tokens_per_second)
                 : word.starts_with(kBurst) && ReadNumber(word.substr(kBurst.size()),
                                                          QuotaLimits::kMostBurst, limits.burst));
    if (!is_good) {
      return fmt::format(
          "the word '{}' behind the third; accepted: tokens_per_second=NUMBER, 0 to {}, and "
          "token_burst=NUMBER, 0 to {}, once each",
          Shorten(word), QuotaLimits::kMostTokensPerSecond, QuotaLimits::kMostBurst);
    }
    is_given = true;
  }
  if (has_burst && !has_rate) return "there is token_burst= without tokens_per_second=";
  if (has_rate) quota = limits;
  return "";
}

// Allowed, but mostly a mistake.
void WarnOfNobody(const std::string& path, const Identities& identities) {
  if (!identities.empty()) return;
  spdlog::warn("identity_file is '{}', which names nobody: every call is refused", path);
}

}  // namespace

absl::StatusOr<Identities> Identities::Parse(const std::string& path, std::string_view text) {
  Identities found;
  int number = 0;
  const auto fault = [&](std::string_view what) {
    return FieldError(
        {.field = kSetting,
         .value = fmt::format("'{}'", path),
         .text = fmt::format("{} is '{}', line {}: {}", kSetting, path, number, what)});
  };
  while (!text.empty()) {
    ++number;
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    Identity identity;
    identity.name = std::string(TakeWord(line));
    if (identity.name.empty() || identity.name.starts_with('#')) continue;
    const std::string_view rights = TakeWord(line);
    const bool has_rights = ReadRights(rights, identity);
    const std::string_view shown = TakeWord(line);
    const std::string wrong = FaultOf(identity, has_rights, rights);
    if (!wrong.empty()) return fault(wrong);
    std::optional<QuotaLimits> quota;
    if (const std::string unread = ReadQuota(line, quota); !unread.empty()) return fault(unread);
    if (quota.has_value()) {
      const auto [known, is_new] = found.quotas_.emplace(identity.name, *quota);
      if (!is_new && known->second != *quota) {
        return fault(fmt::format("'{}' has another quota in a line before it", identity.name));
      }
    }
    if (shown == kCertificate) {
      const std::string name = identity.name;
      if (!found.certificates_.emplace(name, std::move(identity)).second) {
        return fault(fmt::format("the certificate of '{}' stands there twice", name));
      }
      continue;
    }
    Hash hash{};
    if (!ReadHash(shown, hash)) {  // it may be a token, so it is not shown
      return fault("the third word is neither sha256: and 64 hexadecimal digits nor certificate");
    }
    for (const auto& [other, owner] : found.tokens_) {
      if (other == hash) return fault(fmt::format("the token is that of '{}' too", owner.name));
    }
    if (found.tokens_.size() == kMostTokens) {
      return fault(fmt::format("there are more than {} tokens", kMostTokens));
    }
    found.tokens_.emplace_back(hash, std::move(identity));
  }
  return found;
}

const Identity* Identities::OfToken(std::string_view token) const {
  const Hash hash = Sha256(token);
  const Identity* found = nullptr;
  for (const auto& [known, identity] : tokens_) {
    if (CRYPTO_memcmp(known.data(), hash.data(), hash.size()) == 0) found = &identity;
  }
  return found;
}

const Identity* Identities::OfCertificate(const std::string& subject_name) const {
  const auto found = certificates_.find(subject_name);
  return found == certificates_.end() ? nullptr : &found->second;
}

absl::StatusOr<Identities> ReadIdentities(const std::string& path) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string text,
                            ReadFile(kSetting, path, kMostIdentityFileBytes));
  return Identities::Parse(path, text);
}

absl::StatusOr<std::unique_ptr<IdentitySource>> IdentitySource::Open(
    const std::string& path, Listener listener, std::chrono::milliseconds interval) {
  BEAMLINE_ASSIGN_OR_RETURN(Identities identities, ReadIdentities(path));
  WarnOfNobody(path, identities);
  if (listener) listener(identities);
  std::unique_ptr<IdentitySource> source(
      new IdentitySource(path, std::move(listener), std::move(identities)));
  source->watch_ = std::make_unique<FileWatch>(
      std::vector<std::string>{path}, [watched = source.get()] { watched->Reload(); }, interval);
  return source;
}

IdentitySource::IdentitySource(std::string path, Listener listener, Identities identities)
    : path_(std::move(path)),
      listener_(std::move(listener)),
      current_(std::make_shared<const Identities>(std::move(identities))) {}

std::shared_ptr<const Identities> IdentitySource::Current() const {
  std::lock_guard lock(mutex_);
  return current_;
}

void IdentitySource::Reload() {
  auto read = ReadIdentities(path_);
  if (!read.ok()) {
    spdlog::error("the identities are not read anew, and the last ones hold: {}",
                  std::string(read.status().message()));
    return;
  }
  WarnOfNobody(path_, *read);
  if (listener_) listener_(*read);
  std::lock_guard lock(mutex_);
  current_ = std::make_shared<const Identities>(*std::move(read));
  spdlog::info("the identities were read anew");
}

std::string SaltOf(std::string_view identity, std::string_view salt) {
  // The length makes each pair of texts unique.
  const std::string both = fmt::format("{} {}{}", identity.size(), identity, salt);
  const auto hash = Sha256(both);
  return {hash.begin(), hash.end()};
}

}  // namespace beamline
