#include "watchdog/watch/base/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "watchdog/act/files.h"
#include "watchdog/act/thread.h"
#include "watchdog/diagnosis/model/text.h"
#include "watchdog/diagnosis/report/json_writer.h"
#include "watchdog/log/log.h"

namespace ncclwatch::watch {
namespace {

constexpr char kEvents[] = "events.jsonl";
constexpr std::size_t kMostWaiting = 1 << 20;  // bytes, while a file system hangs

std::string TimeText(std::int64_t realtime_ns) {
  std::string text = diagnosis::UtcTime(realtime_ns);  // "...00.123Z"
  text.pop_back();
  return fmt::format("{}{:03}Z", text, realtime_ns / 1000 % 1000);
}

std::string TextOf(const EventLine& line, const char* job) {
  diagnosis::JsonWriter json(diagnosis::JsonWriter::Layout::kOneLine);
  json.BeginObject().Key("timestamp").String(TimeText(line.realtime_ns));
  json.Key("event_type").String(line.type).Key("step");
  line.step >= 0 ? json.Integer(line.step) : json.Null();
  json.Key("rank");
  line.rank >= 0 ? json.Integer(line.rank) : json.Null();
  json.Key("host").String(line.host).Key("job").String(job).Key("details").Raw(line.details);
  return json.EndObject().Take();
}

// Empty, or why not. Locked where nodes share the file: O_APPEND alone does not keep their lines apart on NFS.
std::string Append(const descriptors::Directory& directory, std::string_view lines, bool shared) {
  if (!directory) return directory.reason();
  const int fd = directory.Open(kEvents, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (fd < 0) return fmt::format("{}: {}", directory.PathOf(kEvents), std::strerror(errno));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  if (shared) fcntl(fd, F_OFD_SETLKW, &whole);  // a file system without locks does without
  const bool written = write(fd, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size());
  const int error = errno;
  close(fd);
  return written ? std::string() : fmt::format("{}: {}", directory.PathOf(kEvents), std::strerror(error));
}

}  // namespace

void EventFile::SayOnce(const std::string& why) {
  if (!why.empty() && !std::exchange(said_, true)) log::Error("an event could not be written: {}", why);
}

void EventFile::Write(const EventLine& line) {
  const std::string text = TextOf(line, context_.own->identity.job);
  SayOnce(Append(context_.directory, text, false));
  if (!line.into_out || context_.settings.out.empty()) return;
  if (waiting_.size() + text.size() > kMostWaiting) return SayOnce("NCCLWATCH_OUT takes them too slowly");
  waiting_ += text;
}

bool EventFile::Flush() {
  if (done_ && !done_->load(std::memory_order_acquire)) return false;
  done_.reset();
  if (waiting_.empty()) return true;
  auto done = std::make_shared<std::atomic<bool>>(false);
  const bool started = act::StartThread("ncclwatch-event", [out = OutFolder(context_), lines = waiting_, done] {
    std::string why = act::MakeDirectories(out);
    if (why.empty()) why = Append(descriptors::Directory::Own(out), lines, true);
    if (!why.empty()) log::Error("an event could not be written: {}", why);
    done->store(true, std::memory_order_release);
  });
  if (!started) return false;
  waiting_.clear();
  done_ = std::move(done);
  return false;
}

}  // namespace ncclwatch::watch
