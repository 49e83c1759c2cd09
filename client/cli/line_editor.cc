#include "client/cli/line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "fmt/format.h"

namespace beamline::cli {
namespace {

constexpr int kMostLines = 1000;  // in the history
constexpr std::string_view kTabCommand = "complete-command";

// Texts are UTF-8 in any locale, but libedit decodes characters by the locale.
void UseUtf8() {
  setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") setlocale(LC_CTYPE, "C.UTF-8");
}

std::string_view ValueOf(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

// A duplicate of the descriptor, so that closing the stream leaves the original open.
std::FILE* OpenStream(int descriptor, const char* mode) {
  const int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  if (own < 0) return nullptr;
  std::FILE* const stream = fdopen(own, mode);
  if (stream == nullptr) close(own);
  return stream;
}

}  // namespace

bool CanEditLines() {
  const std::string_view terminal = ValueOf("TERM");
  if (terminal.empty() || terminal == "dumb" || terminal.find('/') != terminal.npos) return false;
  // Without a terminfo entry libedit prints a warning on the terminal, as in minimal images.
  const std::string entry = fmt::format("{}/{}", terminal.front(), terminal);
  std::vector<std::string> folders = {std::string(ValueOf("TERMINFO")),
                                      fmt::format("{}/.terminfo", ValueOf("HOME")), "/etc/terminfo",
                                      "/lib/terminfo", "/usr/share/terminfo"};
  const std::string_view more = ValueOf("TERMINFO_DIRS");
  for (size_t begin = 0; begin < more.size();) {
    const size_t end = std::min(more.find(':', begin), more.size());
    folders.emplace_back(more.substr(begin, end - begin));
    begin = end + 1;
  }
  return std::ranges::any_of(folders, [&](const std::string& folder) {
    return !folder.empty() && access((folder + "/" + entry).c_str(), R_OK) == 0;
  });
}

namespace {

// The original terminal settings, for signals that end or stop the process during editing.
// (libedit's own handling sends the signal to the whole process group.)
int kept_descriptor = -1;
termios kept_settings;

void SetHandler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

// Restores the terminal, then acts as if the signal had not been caught. Calls only
// async-signal-safe functions.
void RestoreAndRaise(int signal) {
  const int error = errno;
  termios edited;
  const bool has_edited = tcgetattr(kept_descriptor, &edited) == 0;
  tcsetattr(kept_descriptor, TCSANOW, &kept_settings);
  SetHandler(signal, SIG_DFL);
  raise(signal);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  sigprocmask(SIG_UNBLOCK, &only,
              nullptr);  // ends the process here, or stops it until it is continued
  SetHandler(signal, &RestoreAndRaise);
  if (has_edited) tcsetattr(kept_descriptor, TCSANOW, &edited);
  errno = error;
}

class KeptTerminal {
 public:
  explicit KeptTerminal(int descriptor) {
    kept_descriptor = descriptor;
    if (tcgetattr(descriptor, &kept_settings) != 0) return;
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &before_[i]);
      // Signals that the caller ignores stay ignored.
      if (before_[i].sa_handler != SIG_IGN) SetHandler(kSignals[i], &RestoreAndRaise);
    }
    is_kept_ = true;
  }
  ~KeptTerminal() {
    for (size_t i = 0; is_kept_ && i < kSignals.size(); ++i) {
      sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
  KeptTerminal(const KeptTerminal&) = delete;
  KeptTerminal& operator=(const KeptTerminal&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGTSTP};

  std::array<struct sigaction, kSignals.size()> before_{};
  bool is_kept_ = false;
};

}  // namespace

class LineEditor::Session {
 public:
  explicit Session(Options options) : options_(std::move(options)) {}
  ~Session() {
    if (history_ != nullptr) history_end(history_);
    if (editor_ != nullptr) el_end(editor_);
    for (std::FILE* stream : {in_, out_}) {
      if (stream != nullptr) std::fclose(stream);
    }
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  absl::Status Open() {
    UseUtf8();
    in_ = OpenStream(options_.in, "r");
    out_ = OpenStream(options_.out, "w");
    if (in_ == nullptr || out_ == nullptr) return NoRoom();
    editor_ = el_init("beamline", in_, out_, out_);
    history_ = history_init();
    if (editor_ == nullptr || history_ == nullptr) return NoRoom();
    HistEvent event;
    history(history_, &event, H_SETSIZE, kMostLines);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_PROMPT, &Prompt);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_HIST, history, history_);
    el_set(editor_, EL_ADDFN, kTabCommand.data(), "completes a command", &CompleteCommand);
    el_set(editor_, EL_BIND, "^I", kTabCommand.data(), nullptr);
    el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_source(editor_, nullptr);  // the user's own bindings, if any
    return LoadHistory();
  }

  std::optional<std::string> Next() {
    el_resize(editor_);
    int length = 0;
    const char* const read = [&] {
      const KeptTerminal kept(options_.in);
      return el_gets(editor_, &length);
    }();
    if (read == nullptr || length <= 0) return std::nullopt;
    std::string line(read, static_cast<size_t>(length));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    if (line.find_first_not_of(" \t") != std::string::npos) {
      HistEvent event;
      history(history_, &event, H_ENTER, line.c_str());
    }
    return line;
  }

  absl::Status SaveHistory() {
    const std::string& path = options_.history_file;
    if (path.empty()) return absl::OkStatus();
    // Created here with mode 0600; libedit would make it readable for others.
    const int made = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (made < 0) return Fault("cannot be written", errno);
    close(made);
    HistEvent event;
    if (history(history_, &event, H_SAVE, path.c_str()) < 0) {
      return Fault("cannot be written", errno);
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status NoRoom() {
    return absl::UnavailableError("there is no memory for editing lines");
  }

  absl::Status Fault(const char* what, int error) const {
    return absl::InvalidArgumentError(fmt::format("--history is '{}', which {}: {}",
                                                  Shorten(options_.history_file), what,
                                                  std::generic_category().message(error)));
  }

  absl::Status LoadHistory() {
    const std::string& path = options_.history_file;
    std::error_code error;
    if (path.empty() || (!std::filesystem::exists(path, error) && !error)) return absl::OkStatus();
    HistEvent event;
    errno = 0;
    // An empty file was created but never written.
    const bool is_empty = std::filesystem::file_size(path, error) == 0 && !error;
    if (!error && (is_empty || history(history_, &event, H_LOAD, path.c_str()) >= 0)) {
      return absl::OkStatus();
    }
    if (error || errno != 0) return Fault("cannot be read", error ? error.value() : errno);
    return absl::InvalidArgumentError(
        fmt::format("--history is '{}'; accepted: a file that this program wrote, or a new one",
                    Shorten(path)));
  }

  static Session& Of(EditLine* editor) {
    void* data = nullptr;
    el_get(editor, EL_CLIENTDATA, &data);
    return *static_cast<Session*>(data);
  }

  static char* Prompt(EditLine* editor) { return Of(editor).options_.prompt.data(); }

  // Completes the text before the cursor to the longest common prefix of all matching completions.
  static unsigned char CompleteCommand(EditLine* editor, int) {
    const LineInfo* const line = el_line(editor);
    const std::string_view so_far(line->buffer, static_cast<size_t>(line->cursor - line->buffer));
    std::string common;
    bool any = false;
    for (const std::string& completion : Of(editor).options_.completions) {
      if (so_far.empty() || !completion.starts_with(so_far)) continue;
      const auto differ =
          std::mismatch(common.begin(), common.end(), completion.begin(), completion.end());
      common = any ? std::string(common.begin(), differ.first) : completion;
      any = true;
    }
    if (common.size() <= so_far.size()) return CC_REFRESH_BEEP;
    el_insertstr(editor, common.c_str() + so_far.size());
    return CC_REFRESH;
  }

  Options options_;
  std::FILE* in_ = nullptr;
  std::FILE* out_ = nullptr;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
};

LineEditor::LineEditor(std::unique_ptr<Session> session) : session_(std::move(session)) {}
LineEditor::~LineEditor() = default;

absl::StatusOr<std::unique_ptr<LineEditor>> LineEditor::Open(Options options) {
  auto session = std::make_unique<Session>(std::move(options));
  if (absl::Status status = session->Open(); !status.ok()) return status;
  return std::unique_ptr<LineEditor>(new LineEditor(std::move(session)));
}

std::optional<std::string> LineEditor::Next() { return session_->Next(); }
absl::Status LineEditor::SaveHistory() { return session_->SaveHistory(); }

}  // namespace beamline::cli
