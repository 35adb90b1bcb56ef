#include "analyzer/jobs/site_lines.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/model/text.h"

namespace ncclwatch::analyzer {
namespace {

// What another user's box says may name any file, and root could open it.
bool IsOurs(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && info.st_uid == geteuid();
}

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

SiteLines::SiteLines(const std::vector<reader::BoxImage>& boxes) {
  for (const reader::BoxImage& box : boxes) {
    if (!IsOurs(box.path)) continue;
    const auto real = [&](std::int64_t ns) { return ns + box.realtime_minus_monotonic_ns; };
    for (const reader::CallSite& site : box.call_sites) Know(site.name, real(site.named_ns));
    for (const reader::Misuse& misuse : box.words.misuses) {
      Know(misuse.site_name, real(misuse.at_ns));
      Know(misuse.made_at_name, real(misuse.at_ns));
    }
    for (const reader::FatalSignal& signal : box.words.signals)
      for (const reader::Frame& frame : signal.frames)
        if (!frame.module.empty()) Know(fmt::format("{}+0x{:x}", frame.module, frame.offset), real(signal.at_ns));
  }
}

void SiteLines::Know(const std::string& name, std::int64_t real_ns) {
  if (name.empty()) return;
  const auto [known, first] = named_real_ns_.try_emplace(name, real_ns);
  // The oldest: the file must not have changed since any process ran it.
  if (!first) return static_cast<void>(known->second = std::min(known->second, real_ns));
  const auto [of_short, alone] = short_names_.try_emplace(FileName(name), name);
  if (!alone) of_short->second.clear();
}

std::optional<diagnosis::SourcePlace> SiteLines::Of(const std::string& name) {
  const auto known = named_real_ns_.find(name);
  if (known == named_real_ns_.end()) return std::nullopt;
  const auto [found, first] = found_.try_emplace(name);
  if (!first) return found->second;
  auto source = diagnosis::PlaceNamed(name, known->second);
  if (!source || source->module.empty()) return std::nullopt;
  const auto line = lines_.At(source->module, source->offset, source->real_ns);
  if (!line) return std::nullopt;
  source->file = line->file;
  source->line = line->line;
  source->function = line->function;
  return found->second = std::move(source);
}

void SiteLines::AddLine(std::optional<diagnosis::SourcePlace>* source) {
  if (!*source || !(*source)->file.empty()) return;
  if (auto line = Of(fmt::format("{}+0x{:x}", (*source)->module, (*source)->offset))) *source = std::move(line);
}

std::optional<diagnosis::SourcePlace> SiteLines::PlaceOf(const reader::BoxImage& box, std::uint64_t site) {
  auto source = diagnosis::SourceOf(box, site);
  AddLine(&source);
  return source;
}

absl::flat_hash_map<std::uint64_t, std::optional<diagnosis::SourcePlace>> SiteLines::PlacesOf(
    const reader::BoxImage& box) {
  absl::flat_hash_map<std::uint64_t, std::optional<diagnosis::SourcePlace>> places;
  for (const reader::CallSite& site : box.call_sites) places.emplace(site.address, PlaceOf(box, site.address));
  return places;
}

void SiteLines::FillIn(diagnosis::Diagnosis* diagnosis) {
  for (diagnosis::Finding& finding : diagnosis->findings)
    for (diagnosis::CallSummary& call : finding.calls) AddLine(&call.source);
}

// "called from train+0x1234, 12 times" -> "called from train.cc:212 in Step, 12 times".
std::string SiteLines::Named(const std::string& text) {
  std::string out;
  std::size_t copied = 0;
  for (std::size_t at = text.find("+0x"); at != std::string::npos; at = text.find("+0x", at + 1)) {
    const std::size_t blank = text.find_last_of(" (\"'", at);
    const std::size_t begin = blank == std::string::npos || blank < copied ? copied : blank + 1;
    const std::size_t end = std::min(text.find_first_not_of("0123456789abcdef", at + 3), text.size());
    const auto name = short_names_.find(text.substr(begin, end - begin));
    const auto line = name == short_names_.end() ? std::nullopt : Of(name->second);
    if (!line) continue;
    out += text.substr(copied, begin - copied) + diagnosis::LineText(*line);
    copied = end;
  }
  return out + text.substr(copied);
}

diagnosis::Diagnosis SiteLines::ForPeople(diagnosis::Diagnosis diagnosis) {
  FillIn(&diagnosis);
  for (diagnosis::Finding& finding : diagnosis.findings) {
    finding.summary = Named(finding.summary);
    for (std::string& line : finding.evidence) line = Named(line);
    for (std::string& line : finding.next_steps) line = Named(line);
  }
  return diagnosis;
}

}  // namespace ncclwatch::analyzer
