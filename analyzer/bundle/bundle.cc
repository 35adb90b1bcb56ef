#include "analyzer/bundle/bundle.h"

#include <absl/time/clock.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <set>

#include "analyzer/bundle/redactor.h"
#include "analyzer/console/progress.h"
#include "analyzer/console/units.h"
#include "analyzer/files/descriptor.h"
#include "analyzer/jobs/crash_frames.h"
#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/site_lines.h"
#include "core/report/render.h"
#include "core/text/printable.h"
#include "watchdog/descriptors/directory.h"
#include "watchdog/rundir/process.h"
#include "watchdog/settings/rules.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kMostOctal = 077777777777;  // 8 GiB: more needs the number in binary
constexpr int kLevel = 6;

struct UstarHeader {  // of ustar
  char name[100];
  char mode[8], uid[8], gid[8];
  char size[12], modified[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6], version[2];
  char user[32], group[32];
  char major[8], minor[8];
  char prefix[155];
  char reserved[12];
};
static_assert(sizeof(UstarHeader) == kBlock);

// False: it is too long.
bool PutName(const std::string& name, UstarHeader* header) {
  if (name.size() <= sizeof header->name) {
    std::memcpy(header->name, name.data(), name.size());
    return true;
  }
  const std::size_t slash = name.find('/', name.size() - sizeof header->name - 1);
  if (slash == std::string::npos || slash > sizeof header->prefix) return false;
  std::memcpy(header->prefix, name.data(), slash);
  std::memcpy(header->name, name.data() + slash + 1, name.size() - slash - 1);
  return true;
}

// Octal, or, as GNU tar and its readers have it, binary with the first bit set.
void PutSize(std::uint64_t size, UstarHeader* header) {
  if (size <= kMostOctal) {
    std::snprintf(header->size, sizeof header->size, "%011llo", static_cast<unsigned long long>(size));
    return;
  }
  header->size[0] = '\x80';
  for (std::size_t i = sizeof header->size - 1; i > 0; --i, size >>= 8) header->size[i] = static_cast<char>(size & 255);
}

void PutChecksum(UstarHeader* header) {
  std::memset(header->checksum, ' ', sizeof header->checksum);
  std::array<unsigned char, kBlock> bytes{};
  std::memcpy(bytes.data(), header, kBlock);
  unsigned sum = 0;
  for (const unsigned char byte : bytes) sum += byte;
  std::snprintf(header->checksum, sizeof header->checksum, "%06o", sum);  // and a blank, as ever
}

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kRoot[] = "ncclwatch-bundle/";
constexpr std::size_t kPiece = 1 << 20;
constexpr std::size_t kMostRedacted = 256u << 20;  // of a file in memory

// Opened below a directory that is kept: its owner may put a link in the place of a folder between the search and the
// reading, and root would follow it.
struct Found {
  descriptors::Directory directory;
  std::string path, name;  // below the directory; in the bundle

  Descriptor Open() const { return Descriptor(directory.Open(path, O_RDONLY | O_NONBLOCK)); }
};

using LeftOut = std::vector<std::pair<std::string, std::string>>;

// Regular files at and below `path`, none of them through a link, by their names.
void FindBelow(const std::string& path, const std::string& name, std::vector<Found>* found, LeftOut* left_out) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const fs::path file(path);
    const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
    found->push_back({descriptors::Directory::Named(folder), file.filename().string(), name});
    return;
  }
  const auto directory = descriptors::Directory::Named(path);
  std::vector<Found> here;
  fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string below = at->path().lexically_relative(path).string(), inner = name + "/" + below;
    std::error_code gone;
    if (at->is_symlink(gone)) continue;
    if (at->is_directory(gone) && access(at->path().c_str(), R_OK | X_OK) != 0)
      left_out->emplace_back(inner, std::strerror(errno));
    // A draft is what another command, or this one, is about to write there.
    else if (at->is_regular_file(gone) && inner.find(".draft.") == std::string::npos)
      here.push_back({directory, below, inner});
  }
  if (error) left_out->emplace_back(name, error.message());
  std::sort(here.begin(), here.end(), [](const Found& a, const Found& b) { return a.name < b.name; });
  found->insert(found->end(), here.begin(), here.end());
}

// `folder`/NAME of the path, or NAME-2, where another path has that name.
std::vector<Found> FilesOf(const std::vector<std::string>& paths, const std::string& folder, LeftOut* left_out) {
  std::vector<Found> found;
  std::set<std::string> taken;
  for (const std::string& path : paths) {
    fs::path plain = fs::absolute(path).lexically_normal();
    if (!plain.has_filename()) plain = plain.parent_path();
    const std::string name = plain.filename();
    std::string unique = name;
    for (int number = 2; !taken.insert(unique).second; ++number) unique = name + "-" + std::to_string(number);
    FindBelow(path, folder + "/" + unique, &found, left_out);
  }
  return found;
}

std::string SecretNames() {
  const char* names =
      settings::Allowed([](const char* name) -> const char* { return std::getenv(name); }, "NCCLWATCH_REDACT");
  return names ? names : "";
}

// Packed, or a program's own numbers: letters that no text has.
bool IsText(std::string_view bytes) {
  const auto is_foreign = [](char c) {
    return (static_cast<unsigned char>(c) < ' ' &&
            std::string_view("\t\n\v\f\r\b\a\x1b").find(c) == std::string_view::npos) ||
           c == '\x7f';
  };
  for (const std::string_view packed : {"\x1f\x8b", "\x28\xb5\x2f\xfd", "BZh",
                                        "\xfd"
                                        "7zXZ",
                                        "PK\x03\x04", "\x04\x22\x4d\x18"})
    if (bytes.starts_with(packed)) return false;
  return static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), is_foreign)) * 100 <= bytes.size() &&
         bytes.find('\0') == std::string_view::npos;
}

// False: with why, it cannot be redacted.
bool ReadToRedact(const std::string& path, const Descriptor& fd, std::uint64_t size, std::string* bytes,
                  std::string* why) {
  const std::string name = fs::path(path).filename();
  if (name.ends_with(".segments") || name.ends_with(".sample"))
    return *why = "packed or raw memory, which is not redacted", false;
  if (size > kMostRedacted) return *why = BytesText(size) + ", too large to be redacted", false;
  bytes->resize(size);
  const ssize_t got = pread(fd.get(), bytes->data(), bytes->size(), 0);
  if (got < 0) return *why = std::strerror(errno), false;
  bytes->resize(static_cast<std::size_t>(got));
  if (!name.ends_with(".box") && !IsText(*bytes)) return *why = "no text, so that it is not redacted", false;
  return true;
}

class Bundle {
 public:
  Bundle(const BundleRequest& request, TarZst::Write write, Bundled* bundled)
      : request_(request), tar_(std::move(write)), bundled_(bundled), redactor_(SecretNames()) {}

  bool Add(const Found& file) {
    if (!TarZst::Takes(kRoot + file.name)) return LeaveOut(file.name, "its name is too long");
    if (fs::path(file.name).filename() == "exchange")
      return LeaveOut(file.name, "it says how the job's nodes reach one another");
    const Descriptor fd = file.Open();
    struct stat info;
    if (!fd || fstat(fd.get(), &info) != 0) return LeaveOut(file.name, std::strerror(errno));
    if (!S_ISREG(info.st_mode)) return LeaveOut(file.name, "it is no file");
    const auto size = static_cast<std::uint64_t>(info.st_size);
    if (size > request_.most_bytes) return LeaveOut(file.name, BytesText(size) + ", more than --max");
    return request_.redact ? AddRedacted(file.name, fd, size, info.st_mtime)
                           : AddWhole(file.name, fd, size, info.st_mtime);
  }

  // True: the rest goes on.
  bool LeaveOut(const std::string& name, const std::string& why) {
    bundled_->left_out.emplace_back(NameOf(name), why);
    return true;
  }
  bool AddText(const std::string& name, const std::string& text) {
    return Put(name, request_.redact ? redactor_.Text(text) : text, absl::ToTimeT(absl::Now()));
  }
  bool AddJson(const std::string& name, const Json& document) {
    const std::string text = PrintableJson(document.dump(1, ' ', false, Json::error_handler_t::replace)) + "\n";
    return Put(name, request_.redact ? redactor_.Json(text).value_or("") : text, absl::ToTimeT(absl::Now()));
  }
  bool Finish() { return tar_.Finish(); }
  Redactor& redactor() { return redactor_; }

 private:
  std::string NameOf(const std::string& name) { return request_.redact ? redactor_.Text(name) : name; }

  bool Put(const std::string& name, std::string_view bytes, std::int64_t modified_s) {
    const std::string shown = NameOf(name);
    bundled_->files.emplace_back(shown, bytes.size());
    return tar_.File(kRoot + shown, bytes, modified_s);
  }

  // A live job writes on meanwhile: what was there is what counts.
  bool AddWhole(const std::string& name, const Descriptor& fd, std::uint64_t size, std::int64_t modified_s) {
    bundled_->files.emplace_back(name, size);
    if (!tar_.Begin(kRoot + name, size, modified_s)) return false;
    std::string piece(kPiece, '\0');
    for (std::uint64_t left = size; left > 0;) {
      const ssize_t got = read(fd.get(), piece.data(), std::min<std::uint64_t>(left, piece.size()));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      if (!tar_.Add(std::string_view(piece).substr(0, static_cast<std::size_t>(got)))) return false;
      left -= static_cast<std::uint64_t>(got);
    }
    return tar_.End();
  }

  bool AddRedacted(const std::string& name, const Descriptor& fd, std::uint64_t size, std::int64_t modified_s) {
    std::string bytes, why;
    if (!ReadToRedact(name, fd, size, &bytes, &why)) return LeaveOut(name, why);
    if (name.ends_with(".box"))
      return redactor_.Box(&bytes) ? Put(name, bytes, modified_s)
                                   : LeaveOut(name, "damaged, so that it is not redacted");
    if (name.ends_with(".json")) {
      const auto document = redactor_.Json(bytes);
      return document ? Put(name, *document, modified_s) : LeaveOut(name, "no JSON, so that it is not redacted");
    }
    return Put(name, name.ends_with(".jsonl") ? redactor_.JsonLines(bytes) : redactor_.Text(bytes), modified_s);
  }

  const BundleRequest& request_;
  TarZst tar_;
  Bundled* bundled_;
  Redactor redactor_;
};

void LearnUser(uid_t uid, Redactor* redactor) {
  if (const passwd* entry = getpwuid(uid)) redactor->LearnUser(entry->pw_name);
}

void LearnFrom(const Found& file, Redactor* redactor) {
  const Descriptor fd = file.Open();
  struct stat info;
  std::string bytes, why;
  if (file.name.ends_with(".box") || !fd || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  if (ReadToRedact(file.path, fd, static_cast<std::uint64_t>(info.st_size), &bytes, &why)) redactor->Learn(bytes);
}

// Whose names are to be hidden, before the first of them is written.
void Learn(const reader::RunImage& run, const std::vector<Found>& of_run, const std::vector<Found>& logs,
           Redactor* redactor) {
  redactor->LearnHost(rundir::HostName());
  LearnUser(getuid(), redactor);
  for (const reader::BoxImage& box : run.boxes)
    for (const std::string& name : {box.host, box.node, box.master_address}) redactor->LearnHost(name);
  for (const reader::BoxImage& box : run.boxes) redactor->Learn(box.environment);
  // Before the texts, which may name them by their paths: a reader knows the files of a run by their names.
  for (const Found& file : of_run) redactor->Keep(fs::path(file.path).filename().string());
  for (const std::vector<Found>* files : {&of_run, &logs})
    for (const Found& file : *files) LearnFrom(file, redactor);
  for (const reader::BoxImage& box : run.boxes) {
    redactor->LearnCommand(box.command);
    LearnUser(box.uid, redactor);
    for (const reader::CallSite& site : box.call_sites) redactor->Text(site.name);  // names of programs
  }
}

}  // namespace

TarZst::TarZst(Write write)
    : write_(std::move(write)), packer_(ZSTD_createCCtx(), &ZSTD_freeCCtx), out_(ZSTD_CStreamOutSize(), '\0') {
  if (!packer_) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(packer_.get(), ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(packer_.get(), ZSTD_c_checksumFlag, 1);
}

bool TarZst::Takes(const std::string& name) {
  UstarHeader header{};
  return PutName(name, &header);
}

bool TarZst::Begin(const std::string& name, std::uint64_t size, std::int64_t modified_s) {
  UstarHeader header{};
  if (!PutName(name, &header)) return false;
  std::memcpy(header.mode, "0000600", 8);
  std::memcpy(header.uid, "0000000", 8);
  std::memcpy(header.gid, "0000000", 8);
  PutSize(size, &header);
  const auto modified = static_cast<unsigned long long>(std::clamp<std::int64_t>(modified_s, 0, kMostOctal));
  std::snprintf(header.modified, sizeof header.modified, "%011llo", modified);
  header.type = '0';
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  PutChecksum(&header);
  size_ = left_ = size;
  return Pack({reinterpret_cast<const char*>(&header), sizeof header});
}

bool TarZst::Add(std::string_view bytes) {
  bytes = bytes.substr(0, left_);
  left_ -= bytes.size();
  return Pack(bytes);
}

bool TarZst::End() {
  const std::string zeroes(64 << 10, '\0');
  while (well_ && left_ > 0) Add(zeroes);
  return Pack(std::string_view(zeroes).substr(0, (kBlock - size_ % kBlock) % kBlock));
}

bool TarZst::Finish() { return Pack(std::string(2 * kBlock, '\0'), ZSTD_e_end); }

bool TarZst::Pack(std::string_view bytes, ZSTD_EndDirective end) {
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  for (bool more = true; well_ && more;) {
    ZSTD_outBuffer out{out_.data(), out_.size(), 0};
    const std::size_t left = ZSTD_compressStream2(packer_.get(), &out, &in, end);
    if (ZSTD_isError(left)) throw std::bad_alloc();  // no other error can be of a stream without settings of its own
    if (out.pos > 0) well_ = write_(std::string_view(out_).substr(0, out.pos));
    more = end == ZSTD_e_end ? left > 0 : in.pos < in.size;
  }
  return well_;
}

nlohmann::ordered_json ManifestOf(const BundleRequest& request, const Bundled& bundled) {
  Json manifest = {{"schema", "ncclwatch.bundle/1"},
                   {"made_at", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone())},
                   {"redacted", request.redact},
                   {"files", Json::array()},
                   {"left_out", Json::array()}};
  for (const auto& [name, bytes] : bundled.files)
    manifest["files"].push_back({{"name", Printable(name)}, {"bytes", bytes}});
  for (const auto& [name, why] : bundled.left_out)
    manifest["left_out"].push_back({{"name", Printable(name)}, {"reason", Printable(why)}});
  return manifest;
}

absl::Status WriteBundle(const BundleRequest& request, TarZst::Write write, Bundled* bundled) {
  Bundle bundle(request, std::move(write), bundled);
  reader::RunImage run = ReadJob(request.located.paths, reader::Calls::kForVerdict);
  LeftOut unreadable;
  std::vector<Found> files = FilesOf(request.located.paths, "run", &unreadable);
  const std::vector<Found> logs = FilesOf(request.logs, "logs", &unreadable);
  if (files.empty() && logs.empty()) return absl::NotFoundError("no file to put into it");
  if (request.redact) Learn(run, files, logs, &bundle.redactor());
  files.insert(files.end(), logs.begin(), logs.end());
  for (const auto& [name, why] : unreadable) bundle.LeaveOut(name, why);

  bool well = true;
  if (!run.boxes.empty()) {
    AddCrashFrames(&run);
    const std::vector<reader::Failure> failures = run.failures;
    SiteLines lines(run.boxes);
    diagnosis::Diagnosis verdict = Diagnose(std::move(run), {nullptr, TopologyOfTheJob("bundle")});
    NameAndIgnore("bundle", &lines, &verdict);
    well = bundle.AddText("verdict.txt", diagnosis::ToText(lines.ForPeople(verdict))) &&
           bundle.AddJson("verdict.json",
                          DiagnosisJson(verdict, failures, AsDiagnosed(verdict, request.located.attempts)));
  }
  well = well && (request.machine == nullptr || bundle.AddJson("machine.json", *request.machine));
  Progress progress("packing", files.size());
  for (std::size_t i = 0; well && i < files.size(); ++i) {
    well = bundle.Add(files[i]);
    progress.Done(i + 1);
  }
  well = well && bundle.AddJson("manifest.json", ManifestOf(request, *bundled)) && bundle.Finish();
  return well ? absl::OkStatus() : absl::UnavailableError("it could not be written");
}

}  // namespace ncclwatch::analyzer
