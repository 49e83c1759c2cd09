// Every file of a model folder in every state that a file can be in: the model loads as it should,
// or one short line names the file. No exception, no abort; a hang ends at the test's time limit.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/engine/hostile/hostile_folder.h"
#include "tests/scratch_path.h"

namespace beamline::hostile_files_test {
namespace {

namespace fs = std::filesystem;

enum class Need { kRequired, kOptional, kUnused };
enum class Kind { kJson, kWeights, kSentencePiece, kLines };

struct ModelFile {
  const char* model;
  const char* name;
  Need need;
  Kind kind;
  const char* absent = "";  // taken away first: what would be read instead of this one
};

constexpr ModelFile kFiles[] = {
    {"embed-en", "config.json", Need::kRequired, Kind::kJson},
    {"embed-en", "model.safetensors", Need::kRequired, Kind::kWeights},
    {"embed-en", "tokenizer.json", Need::kOptional, Kind::kJson},
    {"embed-en", "vocab.txt", Need::kRequired, Kind::kLines, "tokenizer.json"},
    {"embed-en", "tokenizer_config.json", Need::kOptional, Kind::kJson},
    {"embed-en", "special_tokens_map.json", Need::kOptional, Kind::kJson},
    {"embed-en", "modules.json", Need::kOptional, Kind::kJson},
    {"embed-en", "1_Pooling/config.json", Need::kRequired, Kind::kJson},
    {"embed-en", "sentence_bert_config.json", Need::kOptional, Kind::kJson},
    {"embed-en", "config_sentence_transformers.json", Need::kOptional, Kind::kJson},
    {"translate-en-de", "config.json", Need::kRequired, Kind::kJson},
    {"translate-en-de", "model.safetensors", Need::kRequired, Kind::kWeights},
    {"translate-en-de", "generation_config.json", Need::kOptional, Kind::kJson},
    {"translate-en-de", "source.spm", Need::kRequired, Kind::kSentencePiece},
    {"translate-en-de", "target.spm", Need::kRequired, Kind::kSentencePiece},
    {"translate-en-de", "vocab.json", Need::kRequired, Kind::kJson},
    {"translate-en-de", "tokenizer_config.json", Need::kOptional, Kind::kJson},
    {"translate-en-de", "special_tokens_map.json", Need::kOptional, Kind::kJson},
    {"translate-en-de", "tokenizer.json", Need::kUnused, Kind::kJson},
    {"write-en", "config.json", Need::kRequired, Kind::kJson},
    {"write-en", "generation_config.json", Need::kOptional, Kind::kJson},
    {"write-en", "tokenizer.json", Need::kOptional, Kind::kJson},
    {"write-en", "vocab.json", Need::kRequired, Kind::kJson, "tokenizer.json"},
    {"write-en", "merges.txt", Need::kRequired, Kind::kLines, "tokenizer.json"},
    {"write-en", "merges.txt", Need::kUnused, Kind::kLines},
};

struct Damage {
  const char* name;
  void (*inflict)(const HostileFolder& folder, const std::string& file);
};

void Link(const HostileFolder& folder, const std::string& file, const std::string& target) {
  folder.files().Remove(file);
  ASSERT_EQ(symlink(target.c_str(), folder.Path(file).c_str()), 0);
}

// Something of a folder's that is no file.
constexpr Damage kForms[] = {
    {"Folder",
     [](const HostileFolder& folder, const std::string& file) {
       folder.files().Remove(file);
       fs::create_directory(folder.Path(file));
     }},
    {"Pipe",
     [](const HostileFolder& folder, const std::string& file) {
       folder.files().Remove(file);
       ASSERT_EQ(mkfifo(folder.Path(file).c_str(), 0600), 0);
     }},
    {"Socket",
     [](const HostileFolder& folder, const std::string& file) {
       folder.files().Remove(file);
       ASSERT_EQ(mknod(folder.Path(file).c_str(), S_IFSOCK | 0600, 0), 0);
     }},
    {"LinkToItself", [](const HostileFolder& folder,
                        const std::string& file) { Link(folder, file, folder.Path(file)); }},
    {"LinkToNothing",
     [](const HostileFolder& folder, const std::string& file) { Link(folder, file, "nothing"); }},
    {"LinkThroughAFile",
     [](const HostileFolder& folder, const std::string& file) {
       Link(folder, file, folder.Path("special_tokens_map.json/x"));
     }},
    {"LinkToANameThatIsTooLong",
     [](const HostileFolder& folder, const std::string& file) {
       Link(folder, file, std::string(300, 'x'));
     }},
    {"LinkToADevice",
     [](const HostileFolder& folder, const std::string& file) { Link(folder, file, "/dev/zero"); }},
    {"Empty",
     [](const HostileFolder& folder, const std::string& file) { folder.files().Write(file, ""); }},
    {"LfsPointer",
     [](const HostileFolder& folder, const std::string& file) {
       folder.files().Write(file,
                            "version https://git-lfs.github.com/spec/v1\n"
                            "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17"
                            "e2393\nsize 12345\n");
     }},
    {"Huge",
     [](const HostileFolder& folder, const std::string& file) {
       folder.files().Write(file, "");
       ASSERT_EQ(truncate(folder.Path(file).c_str(), (off_t{1} << 40) + 1), 0);
     }},
};

// Content that no file of its kind has.
constexpr Damage kContents[] = {
    {"Truncated",
     [](const HostileFolder& folder, const std::string& file) {
       const std::string bytes = folder.Read(file);
       folder.files().Write(file, bytes.substr(0, bytes.size() / 2));
     }},
    {"GarbageBehind",
     [](const HostileFolder& folder, const std::string& file) {
       folder.files().Write(file, folder.Read(file) + "\xFFgarbage");
     }},
};

constexpr Damage kJsonContents[] = {
    {"NulBehind",
     [](const HostileFolder& folder, const std::string& file) {
       folder.files().Write(file, folder.Read(file) + std::string(1, '\0') + "garbage");
     }},
    {"TextBehind",
     [](const HostileFolder& folder, const std::string& file) {
       folder.files().Write(file, folder.Read(file) + " {}");
     }},
    {"Nested",
     [](const HostileFolder& folder, const std::string& file) {
       folder.files().Write(file, std::string(1000000, '['));
     }},
    {"NoObject", [](const HostileFolder& folder,
                    const std::string& file) { folder.files().Write(file, "\"text\""); }},
    {"NameTwice",
     [](const HostileFolder& folder, const std::string& file) {
       std::string twice = "{";
       for (int i = 0; i < 2; ++i) {
         twice += (i == 0 ? "\"" : ",\"");
         for (int k = 0; k < 500000; ++k) twice += "\u00e4";  // of two bytes
         twice += "\":1";
       }
       folder.files().Write(file, twice + "}");
     }},
    {"NotUtf8", [](const HostileFolder& folder,
                   const std::string& file) { folder.files().Write(file, "{\"\xC3\": 1}"); }},
};

struct Case {
  ModelFile file;
  Damage damage;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const ModelFile& file : kFiles) {
    for (const Damage& form : kForms) cases.push_back({file, form});
    if (file.kind != Kind::kLines) {
      for (const Damage& content : kContents) cases.push_back({file, content});
    }
    if (file.kind == Kind::kJson) {
      for (const Damage& content : kJsonContents) cases.push_back({file, content});
    }
  }
  return cases;
}

std::string NameOf(const ModelFile& file, std::string_view damage) {
  std::string name =
      std::string(file.model) + "_" + file.name + (*file.absent != '\0' ? "_alone_" : "_");
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name + std::string(damage) + (file.need == Need::kUnused ? "_unused" : "");
}

class HostileFilesTest : public testing::TestWithParam<Case> {};

TEST_P(HostileFilesTest, IsNamedOrOfNoMatter) {
  const auto& [file, damage] = GetParam();
  const HostileFolder folder(file.model);
  if (*file.absent != '\0') folder.files().Remove(file.absent);
  damage.inflict(folder, file.name);
  const absl::Status status = folder.Load();
  if (file.need == Need::kUnused) {
    EXPECT_TRUE(status.ok()) << status;
  } else {
    ExpectShortErrorWith(status, file.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, HostileFilesTest, testing::ValuesIn(Cases()),
                         [](const auto& tested) {
                           return NameOf(tested.param.file, tested.param.damage.name);
                         });

class AbsentFilesTest : public testing::TestWithParam<ModelFile> {};

TEST_P(AbsentFilesTest, AreNamedWhereTheyAreNeeded) {
  const ModelFile& file = GetParam();
  const HostileFolder folder(file.model);
  if (*file.absent != '\0') folder.files().Remove(file.absent);
  folder.files().Remove(file.name);
  const absl::Status status = folder.Load();
  if (file.need == Need::kRequired) {
    ExpectShortErrorWith(status, file.name);
  } else {
    EXPECT_TRUE(status.ok()) << status;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, AbsentFilesTest, testing::ValuesIn(kFiles),
                         [](const auto& tested) { return NameOf(tested.param, "absent"); });

// Each file that is read as a link that leads out of the folder's root, and as one that stays in
// it.
class LinkedFilesTest : public testing::TestWithParam<ModelFile> {};

TEST_P(LinkedFilesTest, AreOpenedBeneathTheRoot) {
  const ModelFile& file = GetParam();
  const fs::path base = ScratchPath("linked_files"), model = base / "root/models/m";
  fs::remove_all(base);
  fs::create_directories(base / "root/models");
  fs::create_directories(base / "root/blobs");
  fs::create_directories(base / "outside");
  fs::copy(std::string(BEAMLINE_SOURCE_DIR) + "/models/" + file.model, model,
           fs::copy_options::recursive);
  if (*file.absent != '\0') fs::remove(model / file.absent);
  fs::rename(model / file.name, base / "outside/file");
  fs::copy(base / "outside/file", base / "root/blobs/1f");

  fs::create_symlink(base / "outside/file", model / file.name);
  const std::string root = fs::canonical(base / "root").string();
  const std::string folder = root + "/models/m";
  EXPECT_TRUE(HostileFolder::LoadFolder(folder).ok());  // an operator's own model
  const absl::Status status = HostileFolder::LoadFolder(folder, root);
  if (file.need == Need::kUnused) {
    EXPECT_TRUE(status.ok()) << status;
  } else {
    ExpectShortErrorWith(status, file.name);
    ExpectShortErrorWith(status, "a link that leads out of model_root");
  }
  fs::remove(model / file.name);
  const fs::path up =
      fs::path(file.name).has_parent_path() ? "../../../blobs/1f" : "../../blobs/1f";
  fs::create_symlink(up, model / file.name);
  const absl::Status inside = HostileFolder::LoadFolder(folder, root);
  EXPECT_TRUE(inside.ok()) << inside;
  fs::remove_all(base);
}

INSTANTIATE_TEST_SUITE_P(Files, LinkedFilesTest, testing::ValuesIn(kFiles),
                         [](const auto& tested) { return NameOf(tested.param, "linked"); });

TEST(HostileFoldersTest, AreOpenedBeneathTheRoot) {
  const HostileFolder folder("embed-en");
  const fs::path root = ScratchPath("folders_root");
  fs::remove_all(root);
  fs::create_directories(root / "empty");
  fs::create_directory_symlink(folder.files().path(), root / "m");
  const std::string path = fs::canonical(root).string();
  EXPECT_TRUE(HostileFolder::LoadFolder(path + "/m").ok());
  ExpectShortErrorWith(HostileFolder::LoadFolder(path + "/m", path),
                       "/m: a link that leads out of model_root");
  ExpectShortErrorWith(HostileFolder::LoadFolder(folder.files().path(), path), "leads out of");
  ExpectShortErrorWith(HostileFolder::LoadFolder(path + "/empty", path), "no such file");
  ExpectShortErrorWith(HostileFolder::LoadFolder(path + "/m", path + "/none"), "model_root is '");
  fs::remove_all(root);
}

// What a folder may have beside the demo models' files.
TEST(HostileFoldersTest, TemplatesShardsAndModulesAreOpenedBeneathTheRoot) {
  for (const char* name : {"chat_template.jinja", "additional_chat_templates/rag.jinja",
                           "model.safetensors.index.json", "adapter_config.json"}) {
    const fs::path base = ScratchPath("other_files"), model = base / "root/m";
    fs::remove_all(base);
    fs::create_directories(base / "root");
    fs::copy(std::string(BEAMLINE_SOURCE_DIR) + "/models/write-en", model,
             fs::copy_options::recursive);
    if (std::string_view(name) == "model.safetensors.index.json") {
      fs::remove(model / "model.safetensors");
    }
    std::ofstream(base / "outside") << "{}";
    fs::create_directories((model / name).parent_path());
    fs::create_symlink(base / "outside", model / name);
    const std::string root = fs::canonical(base / "root").string();
    const absl::Status status = HostileFolder::LoadFolder(root + "/m", root);
    ExpectShortErrorWith(status, name);
    ExpectShortErrorWith(status, "a link that leads out of model_root");
    fs::remove_all(base);
  }
}

TEST(HostileFoldersTest, LongNamesLeaveTheFilesInTheLine) {
  const HostileFolder folder("embed-en");
  std::string deep = "x";
  for (int i = 0; i < 12; ++i) deep += "/" + std::string(200, 'n');
  folder.files().Write(deep + "/config.json", "{");
  ExpectShortErrorWith(HostileFolder::LoadFolder(folder.Path(deep)), "/config.json: not valid");
}

TEST(HostileFoldersTest, NamesWhatIsNoFolder) {
  const HostileFolder folder("embed-en");
  ExpectShortErrorWith(HostileFolder::LoadFolder(folder.Path("config.json")), "not a folder");
  ExpectShortErrorWith(HostileFolder::LoadFolder(folder.Path("none")), "no such folder");
  Link(folder, "loop", folder.Path("loop"));
  ExpectShortErrorWith(HostileFolder::LoadFolder(folder.Path("loop")), "/loop: cannot be opened");
  ExpectShortErrorWith(HostileFolder::LoadFolder(std::string("a\0b", 3)), "no such folder");
  ExpectShortErrorWith(HostileFolder::LoadFolder("\xFF\xFE\n"), "no such folder");
}

}  // namespace
}  // namespace beamline::hostile_files_test
