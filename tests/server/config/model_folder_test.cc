#include "server/config/model_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/scratch_path.h"

namespace beamline::model_folder_test {
namespace {

namespace fs = std::filesystem;

std::string CacheOf(const std::map<std::string, std::string>& variables) {
  return HubCacheFolder([&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(ModelFolder, TheCacheIsWhereTheHubsToolsHaveIt) {
  EXPECT_EQ(CacheOf({}), "");
  EXPECT_EQ(CacheOf({{"HOME", "/h"}}), "/h/.cache/huggingface/hub");
  EXPECT_EQ(CacheOf({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}), "/x/huggingface/hub");
  EXPECT_EQ(CacheOf({{"HOME", "/h"}, {"HF_HOME", "/f"}}), "/f/hub");
  EXPECT_EQ(CacheOf({{"HF_HOME", "/f"}, {"HF_HUB_CACHE", "/c"}}), "/c/");
  EXPECT_EQ(CacheOf({{"HF_HOME", ""}, {"HOME", "/h"}}), "/h/.cache/huggingface/hub");
}

TEST(ModelFolder, HubNamesAreAnOwnerAndAName) {
  for (const char* name : {"BAAI/bge-small-en-v1.5", "a/b@main", "a/b@0123abc", "a1/b_2.c"}) {
    EXPECT_TRUE(IsHubModel(name)) << name;
  }
  for (const char* name : {"", "gpt2", "/srv/m", "./m", "../m", "a/b/c", "a/", "/b", "a b/c",
                           "a/b@", "a/b@x/y", "a/../b", "a/.b"}) {
    EXPECT_FALSE(IsHubModel(name)) << name;
  }
}

TEST(ModelFolder, AModelHasItsFoldersName) {
  EXPECT_EQ(NameOfFolder("BAAI/bge-small@main"), "bge-small");
  EXPECT_EQ(NameOfFolder("/srv/models/mt"), "mt");
  EXPECT_EQ(NameOfFolder("/srv/models/mt/"), "mt");
  EXPECT_EQ(NameOfFolder("/srv/models/mt/."), "mt");
  EXPECT_EQ(NameOfFolder("/srv/models/mt/x/.."), "mt");
  EXPECT_EQ(NameOfFolder("mt"), "mt");
  EXPECT_EQ(NameOfFolder("gpt2@main"), "gpt2");
}

class HubCacheTest : public testing::Test {
 protected:
  HubCacheTest() : root_(ScratchPath("hub_cache")) {
    fs::remove_all(root_);
    Add("models--BAAI--bge", "0123abc");
    Add("models--gpt2", "beef");
    fs::create_directories(root_ / "hub/models--BAAI--bge/refs");
    std::ofstream(root_ / "hub/models--BAAI--bge/refs/main") << "0123abc";
    std::ofstream(root_ / "hub/models--BAAI--bge/refs/old") << "gone";
    fs::create_directories(root_ / "hub/models--gpt2/refs");
    std::ofstream(root_ / "hub/models--gpt2/refs/main") << "beef\n";
  }
  ~HubCacheTest() override { fs::remove_all(root_); }

  // As the Hub's tools keep it: files of a snapshot are links.
  void Add(const std::string& model, const std::string& commit) const {
    const fs::path folder = root_ / "hub" / model;
    fs::create_directories(folder / "blobs");
    fs::create_directories(folder / "snapshots" / commit);
    std::ofstream(folder / "blobs/1") << "{}";
    fs::create_symlink("../../blobs/1", folder / "snapshots" / commit / "config.json");
  }
  absl::StatusOr<std::string> Find(const std::string& text) const {
    return FindModelFolder(text, (root_ / "hub").string());
  }
  std::string SnapshotOf(const std::string& model, const std::string& commit) const {
    return (root_ / "hub" / model / "snapshots" / commit).string();
  }

  fs::path root_;
};

TEST_F(HubCacheTest, WhatIsThereIsFound) {
  const std::string bge = SnapshotOf("models--BAAI--bge", "0123abc");
  EXPECT_EQ(*Find("BAAI/bge"), bge);
  EXPECT_EQ(*Find("BAAI/bge@main"), bge);
  EXPECT_EQ(*Find("BAAI/bge@0123abc"), bge);
  EXPECT_EQ(*Find("gpt2"), SnapshotOf("models--gpt2", "beef"));
  EXPECT_TRUE(fs::exists(bge + "/config.json"));
}

TEST_F(HubCacheTest, FoldersGoFirstAndOtherTextsStay) {
  const fs::path folder = root_ / "gpt2";
  fs::create_directories(folder);
  EXPECT_EQ(*Find(folder.string()), folder.string());
  for (const char* text : {"/srv/no/such", "models/no/such", "nothing", "", "../x"}) {
    EXPECT_EQ(*Find(text), text);
  }
}

TEST_F(HubCacheTest, AWrongPathIsNoNameOfTheHub) {
  const fs::path before = fs::current_path();
  fs::create_directories(root_ / "here/models");
  fs::current_path(root_ / "here");
  EXPECT_EQ(*Find("models/mt"), "models/mt");
  EXPECT_FALSE(Find("model/mt").ok());
  fs::current_path(before);
}

TEST_F(HubCacheTest, WhatIsNotThereIsToldWithItsCommand) {
  const std::string cache = (root_ / "hub").string();
  EXPECT_EQ(
      Find("BAAI/other").status().message(),
      "there is no folder 'BAAI/other', and the Hub's cache '" + cache +
          "' has no such model; it is downloaded by: hf download BAAI/other --local-dir other");
  // Of a revision that is named, or that was downloaded in part, the files are not there.
  for (const char* revision : {"v2", "old", "..", "main@x"}) {
    EXPECT_FALSE(Find(std::string("BAAI/bge@") + revision).ok() &&
                 *Find(std::string("BAAI/bge@") + revision) != std::string("BAAI/bge@") + revision)
        << revision;
  }
  EXPECT_EQ(FindModelFolder("a/b@v2", "").status().message(),
            "there is no folder 'a/b@v2', and the Hub's cache has no such model; it is downloaded "
            "by: hf download a/b --revision v2 --local-dir b");
}

}  // namespace
}  // namespace beamline::model_folder_test
