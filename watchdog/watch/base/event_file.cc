#include "watchdog/watch/base/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/model/text.h"
#include "core/report/json_writer.h"
#include "watchdog/act/files.h"
#include "watchdog/act/thread.h"
#include "watchdog/descriptors/limited_write.h"
#include "watchdog/log/log.h"
#include "watchdog/watch/base/clock.h"

namespace ncclwatch::watch {
namespace {

constexpr char kDroppedType[] = "events_dropped", kDroppedKey[] = "\"dropped\":";
constexpr std::uint64_t kMostEventBytesInOut = 256 << 20;
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

// Who writes: for a line that no event is behind.
struct Source {
  std::string job, host;
  int rank;
};
Source SourceOf(const Context& context) {
  const format::Identity& identity = context.own->identity;
  return {identity.job, identity.host, identity.rank};
}

// A place for events, and how much of it they may take: two files of `most_bytes` each.
struct Place {
  descriptors::Directory directory;
  std::uint64_t most_bytes;
  bool shared;  // by several nodes: O_APPEND alone does not keep their lines apart on NFS
};

int OpenFile(const Place& place, struct stat* file) {
  const int fd = place.directory.Open(kEventFile, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK, 0600);
  if (fd < 0) return -1;
  struct flock whole {};
  whole.l_type = F_WRLCK;
  if (place.shared) fcntl(fd, F_OFD_SETLKW, &whole);  // a file system without locks does without
  if (fstat(fd, file) == 0 && S_ISREG(file->st_mode)) return fd;
  close(fd);
  errno = EINVAL;
  return -1;
}

// Of one of the two files: its events, and how many lines its first line says were removed before it began.
struct Counted {
  std::uint64_t events = 0, removed_before = 0;
};

Counted Count(const descriptors::Directory& directory, const char* name) {
  Counted counted;
  const int fd = directory.Open(name, O_RDONLY | O_NONBLOCK);
  if (fd < 0) return counted;
  std::string first;
  static constexpr std::size_t kPiece = 1 << 16;
  const std::unique_ptr<char[]> piece(new char[kPiece]);
  for (ssize_t got; (got = read(fd, piece.get(), kPiece)) > 0;) {
    if (first.empty()) first.assign(piece.get(), static_cast<std::size_t>(got));
    counted.events += static_cast<std::uint64_t>(std::count(piece.get(), piece.get() + got, '\n'));
  }
  close(fd);
  first.resize(std::min(first.find('\n'), first.size()));
  const std::size_t key = first.find(kDroppedKey);
  if (first.find(kDroppedType) == std::string::npos || key == std::string::npos) return counted;
  --counted.events;
  counted.removed_before = std::strtoull(first.c_str() + key + std::strlen(kDroppedKey), nullptr, 10);
  return counted;
}

// The first line of a file that follows others which are gone.
std::string DroppedLine(const Source& source, std::uint64_t dropped) {
  const std::string details = fmt::format("{{{}{}}}", kDroppedKey, dropped);
  return TextOf(
      {.realtime_ns = Realtime(), .type = kDroppedType, .rank = source.rank, .host = source.host, .details = details},
      source.job.c_str());
}

// Makes room by removing the older file. The name always leads to a file: between two of them another process would
// begin one, and its line would come before the count.
void Rotate(const Place& place, int fd, const struct stat& file, const Source& source) {
  const descriptors::Directory& directory = place.directory;
  struct stat named {};
  if (!place.shared && flock(fd, LOCK_EX | LOCK_NB) != 0) return;
  if (!directory.Stat(kEventFile, &named) || named.st_ino != file.st_ino || named.st_dev != file.st_dev) return;
  const std::uint64_t dropped = Count(directory, kEventFile).removed_before + Count(directory, kOlderEventFile).events;
  act::Draft next(directory, kEventFile);
  if (dropped > 0) next.Write(DroppedLine(source, dropped));
  directory.Unlink(kOlderEventFile);
  if (directory.Link(kEventFile, kOlderEventFile) || directory.Rename(kEventFile, kOlderEventFile)) next.Keep();
}

// Empty, or why not.
std::string Append(const Place& place, std::string_view lines, const Source& source) {
  if (!place.directory) return place.directory.reason();
  struct stat file {};
  int fd = OpenFile(place, &file);
  const auto is_full = [&] {
    return file.st_size > 0 && static_cast<std::uint64_t>(file.st_size) + lines.size() > place.most_bytes;
  };
  // Another process may be renaming it.
  constexpr int kTries = 20;
  for (int i = 0; i < kTries && fd >= 0 && is_full(); ++i) {
    if (i > 0) usleep(1000);
    Rotate(place, fd, file, source);
    close(fd);
    fd = OpenFile(place, &file);
  }
  if (fd >= 0 && is_full()) {
    close(fd);
    return place.directory.PathOf(kEventFile) + ": it is full, and cannot be renamed";
  }
  const bool written = fd >= 0 && descriptors::WriteAll(fd, lines);
  const int error = errno;
  if (fd >= 0) close(fd);
  return written ? std::string() : fmt::format("{}: {}", place.directory.PathOf(kEventFile), std::strerror(error));
}

}  // namespace

void EventFile::SayOnce(const std::string& why) {
  if (!why.empty() && !std::exchange(said_, true)) log::Error("an event could not be written: {}", why);
}

void EventFile::Write(const EventLine& line) {
  const std::string text = TextOf(line, context_.own->identity.job);
  SayOnce(Append({context_.directory, kMostEventBytes, false}, text, SourceOf(context_)));
  if (!line.into_out || context_.settings.out.empty()) return;
  if (waiting_.size() + text.size() > kMostWaiting) return SayOnce("NCCLWATCH_OUT takes them too slowly");
  waiting_ += text;
}

bool EventFile::Flush() {
  if (done_ && !done_->load(std::memory_order_acquire)) return false;
  done_.reset();
  if (waiting_.empty()) return true;
  auto done = std::make_shared<std::atomic<bool>>(false);
  const bool started = act::StartThread(
      "ncclwatch-event", [out = OutFolder(context_), lines = waiting_, source = SourceOf(context_), done] {
        std::string why = act::MakeDirectories(out);
        if (why.empty()) why = Append({descriptors::Directory::Own(out), kMostEventBytesInOut, true}, lines, source);
        if (!why.empty()) log::Error("an event could not be written: {}", why);
        done->store(true, std::memory_order_release);
      });
  if (!started) return false;
  waiting_.clear();
  done_ = std::move(done);
  return false;
}

}  // namespace ncclwatch::watch
