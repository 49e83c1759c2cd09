#include "server/calls/model_root.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/field_error.h"
#include "tests/scratch_path.h"

namespace beamline::model_root_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// base/root is the root; base/outside lies beside it.
class ModelRootTest : public testing::Test {
 protected:
  ModelRootTest() : base_(ScratchPath("model_root")) {
    fs::remove_all(base_);
    fs::create_directories(base_ / "root/good/1_Pooling");
    fs::create_directories(base_ / "root/team/good");
    fs::create_directories(base_ / "outside");
    fs::create_directories(base_ / "root-of-others");
    std::ofstream(base_ / "root/good/config.json") << "{}";
    std::ofstream(base_ / "outside/config.json") << "{}";
  }
  ~ModelRootTest() override { fs::remove_all(base_); }

  absl::StatusOr<std::string> Resolve(const std::string& folder) const {
    const auto root = ModelRoot::Open((base_ / "root").string());
    EXPECT_TRUE(root.ok()) << root.status();
    return root->Resolve(folder);
  }
  void ExpectRefused(const std::string& folder, const std::string& why = "") const {
    const absl::Status status = Resolve(folder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << folder;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    ASSERT_TRUE(GetFieldFault(status).has_value());
    EXPECT_EQ(GetFieldFault(status)->field, "folder");
  }

  const fs::path base_;
};

TEST_F(ModelRootTest, FindsFoldersBelowIt) {
  EXPECT_EQ(*Resolve("good"), fs::canonical(base_ / "root/good").string());
  EXPECT_EQ(*Resolve("team/good"), fs::canonical(base_ / "root/team/good").string());
  EXPECT_EQ(Resolve("bad").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Resolve("good/missing").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ModelRootTest, NoNameLeadsOutOfIt) {
  using std::string_literals::operator""s;
  for (const std::string& folder :
       {""s, "."s, ".."s, "../outside"s, "good/.."s, "good/../../outside"s, "/"s, "/etc"s,
        (base_ / "root/good").string(), "good/"s, "good//1_Pooling"s, "./good"s, "good/."s,
        "good\0"s, "../root-of-others"s, std::string(2000, 'a')}) {
    ExpectRefused(folder, "accepted: a folder below model_root");
  }
  ExpectRefused("good/config.json", "which is no folder");
}

TEST_F(ModelRootTest, LinksMayStayWithin) {
  fs::create_directory_symlink("../good", base_ / "root/team/link");
  fs::create_directory_symlink(base_ / "root/good", base_ / "root/absolute");
  fs::create_symlink("config.json", base_ / "root/good/alias.json");
  fs::create_symlink("nowhere", base_ / "root/good/dangling");
  EXPECT_EQ(*Resolve("team/link"), *Resolve("good"));
  EXPECT_EQ(*Resolve("absolute"), *Resolve("good"));
}

TEST_F(ModelRootTest, LinksLeadNowhereElse) {
  fs::create_directory_symlink(base_ / "outside", base_ / "root/out");
  fs::create_directory_symlink(base_ / "root-of-others", base_ / "root/others");
  fs::create_directory_symlink("..", base_ / "root/up");
  fs::create_directory_symlink(".", base_ / "root/self");
  ExpectRefused("out", "which a link leads out of model_root");
  ExpectRefused("others", "which a link leads out of model_root");
  ExpectRefused("up", "which a link leads out of model_root");
  ExpectRefused("self", "which a link leads out of model_root");  // the root itself is no model
  fs::create_symlink(base_ / "outside/config.json", base_ / "root/good/tokenizer.json");
  ExpectRefused("good", "the link 'tokenizer.json' leads out of model_root");
  fs::remove(base_ / "root/good/tokenizer.json");
  fs::create_symlink("../../../outside/config.json", base_ / "root/good/1_Pooling/config.json");
  ExpectRefused("good", "the link 'config.json' leads out of model_root");
  fs::remove(base_ / "root/good/1_Pooling/config.json");
  fs::create_symlink("loop", base_ / "root/loop");
  ExpectRefused("loop", "which cannot be opened");
  EXPECT_TRUE(Resolve("good").ok());
}

TEST_F(ModelRootTest, MustBeAFolder) {
  for (const char* path : {"nowhere", "root/good/config.json"}) {
    const absl::Status status = ModelRoot::Open((base_ / path).string()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("model_root is '"));
  }
}

}  // namespace
}  // namespace beamline::model_root_test
