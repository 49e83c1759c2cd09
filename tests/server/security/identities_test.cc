#include "server/security/identities.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "tests/scratch_path.h"
#include "tests/server/security/certificates.h"
#include "tests/server/telemetry/log/log_capture.h"

namespace beamline::identities_test {
namespace {

// Of "test" and of "".
constexpr char kTest[] = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
constexpr char kEmpty[] = "sha256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855";

TEST(Identities, AreFoundByTokenAndByCertificate) {
  const auto found =
      Identities::Parse("f", std::string("# a comment\n\n  alice\tinference  ") + kTest +
                                 "\r\nops admin,inference certificate\nalice admin " + kEmpty);
  ASSERT_TRUE(found.ok()) << found.status();
  const Identity* const alice = found->OfToken("test");
  ASSERT_NE(alice, nullptr);
  EXPECT_EQ(alice->name, "alice");
  EXPECT_TRUE(alice->may_infer);
  EXPECT_FALSE(alice->may_admin);
  EXPECT_TRUE(found->OfToken("")->may_admin);
  for (const char* other : {"tesT", "test ", "tes", "alice", kTest}) {
    EXPECT_EQ(found->OfToken(other), nullptr) << other;
  }
  const Identity* const ops = found->OfCertificate("ops");
  ASSERT_NE(ops, nullptr);
  EXPECT_TRUE(ops->may_infer && ops->may_admin);
  EXPECT_EQ(found->OfCertificate("alice"), nullptr);
  EXPECT_EQ(Identities::Parse("f", "")->OfToken(""), nullptr);
}

TEST(Identities, FaultsNameTheLine) {
  const std::string hash = kTest;
  const std::string second = "a inference " + hash + "\n";
  const std::string accepted =
      " behind the third; accepted: tokens_per_second=NUMBER, 0 to 1000000000, and "
      "token_burst=NUMBER, 0 to 1000000000000, once each";
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"a\n", "line 1: the rights are ''; accepted: inference, admin, or inference,admin"},
      {"\na all " + hash,
       "line 2: the rights are 'all'; accepted: inference, admin, or inference,admin"},
      {"a inference,, " + hash,
       "line 1: the rights are 'inference,,'; accepted: inference, admin, or inference,admin"},
      {"a inference secret",
       "line 1: the third word is neither sha256: and 64 hexadecimal digits nor certificate"},
      {"a inference " + hash.substr(0, 70),
       "line 1: the third word is neither sha256: and 64 hexadecimal digits nor certificate"},
      {"a inference " + hash.substr(0, 70) + "g",
       "line 1: the third word is neither sha256: and 64 hexadecimal digits nor certificate"},
      {"a inference " + hash + " more", "line 1: the word 'more'" + accepted},
      {"a inference " + hash + " tokens_per_second=-1",
       "line 1: the word 'tokens_per_second=-1'" + accepted},
      {"a inference " + hash + " tokens_per_second=1000000001",
       "line 1: the word 'tokens_per_second=1000000001'" + accepted},
      {"a inference " + hash + " tokens_per_second=1 tokens_per_second=1",
       "line 1: the word 'tokens_per_second=1'" + accepted},
      {"a inference " + hash + " token_burst=1000000000001 tokens_per_second=1",
       "line 1: the word 'token_burst=1000000000001'" + accepted},
      {"a inference " + hash + " tokens_per_second=1 token_burst=",
       "line 1: the word 'token_burst='" + accepted},
      {"a inference " + hash + " token_burst=5",
       "line 1: there is token_burst= without tokens_per_second="},
      {"a inference " + hash + " tokens_per_second=5\na admin certificate tokens_per_second=6",
       "line 2: 'a' has another quota in a line before it"},
      {second + "b admin " + hash, "line 2: the token is that of 'a' too"},
      {"a admin certificate\na inference certificate",
       "line 2: the certificate of 'a' stands there twice"},
      {std::string(129, 'a') + " admin certificate",
       "line 1: the name is '" + Shorten(std::string(129, 'a')) +
           "'; accepted: at most 128 bytes of UTF-8 that show"},
  };
  for (const auto& [text, fault] : faults) {
    const auto found = Identities::Parse("f", text);
    EXPECT_EQ(found.status().message(), "identity_file is 'f', " + fault);
  }
}

TEST(Identities, MayHaveQuotasOfTheirOwn) {
  const auto found = Identities::Parse(
      "f", std::string("a inference ") + kTest + " token_burst=70\ttokens_per_second=5 \r\n" +
               "a inference " + kEmpty + "\nb admin certificate tokens_per_second=0\n" +
               "c admin certificate\na inference certificate tokens_per_second=5 token_burst=70");
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->quotas().size(), 2U);
  EXPECT_EQ(found->quotas().at("a"), (QuotaLimits{.tokens_per_second = 5, .burst = 70}));
  EXPECT_FALSE(found->quotas().at("b").limits());
}

TEST(Identities, SaltsAreOfOneIdentityAlone) {
  EXPECT_EQ(SaltOf("a", "b"), SaltOf("a", "b"));
  EXPECT_EQ(SaltOf("a", "").size(), 32u);
  EXPECT_NE(SaltOf("a", "b"), SaltOf("ab", ""));
  EXPECT_NE(SaltOf("a", "b"), SaltOf("b", "b"));
  EXPECT_NE(SaltOf("a", "b"), SaltOf("a", "c"));
}

TEST(IdentitySource, WarnsOfAFileThatNamesNobody) {
  const std::string path = ScratchPath("nobody");
  ReplaceFile(path, "# to come\n");
  const LogCapture log(spdlog::level::warn);
  const auto source = IdentitySource::Open(path, nullptr, std::chrono::milliseconds(20));
  ASSERT_TRUE(source.ok()) << source.status();
  const std::string warning =
      "warning identity_file is '" + path + "', which names nobody: every call is refused\n";
  EXPECT_EQ(log.text(), warning);
  ReplaceFile(path, std::string("a inference ") + kTest);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while ((*source)->Current()->empty() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_FALSE((*source)->Current()->empty());
  EXPECT_EQ(log.text(), warning);
}

TEST(IdentitySource, FollowsItsFile) {
  const std::string path = ScratchPath("who");
  EXPECT_TRUE(absl::IsNotFound(IdentitySource::Open(path).status()));
  ReplaceFile(path, std::string("a inference ") + kTest);
  std::atomic<int> num_read = 0;
  const auto source = IdentitySource::Open(
      path, [&num_read](const Identities&) { ++num_read; }, std::chrono::milliseconds(20));
  EXPECT_EQ(num_read, 1);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto name = [&source] {
    const auto current = (*source)->Current();
    const Identity* const found = current->OfToken("test");
    return found == nullptr ? "" : found->name;
  };
  EXPECT_EQ(name(), "a");
  ReplaceFile(path, "nonsense");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(name(), "a");
  ReplaceFile(path, std::string("b inference ") + kTest);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (name() != "b" && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(name(), "b");
  EXPECT_EQ(num_read, 2);
}

}  // namespace
}  // namespace beamline::identities_test
