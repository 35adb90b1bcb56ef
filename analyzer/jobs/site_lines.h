// Source lines for call sites, from the debug information of the files as they lie here.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <optional>
#include <string>
#include <vector>

#include "analyzer/stacks/lines/lines.h"
#include "core/model/finding.h"
#include "core/reader/image.h"

namespace ncclwatch::analyzer {

class SiteLines {
 public:
  // Of all boxes' call sites, wrong uses of MPI and frames of crashes. Files are opened when they are asked for.
  explicit SiteLines(const std::vector<reader::BoxImage>& boxes);

  // Of "/path/of/module+0x1234"; none where the debug information does not tell.
  std::optional<diagnosis::SourcePlace> Of(const std::string& name);
  // Of a call site of the box: its line, or module and offset alone; none: it has no name.
  std::optional<diagnosis::SourcePlace> PlaceOf(const reader::BoxImage& box, std::uint64_t site);
  // Of all call sites that the box names, by their addresses.
  absl::flat_hash_map<std::uint64_t, std::optional<diagnosis::SourcePlace>> PlacesOf(const reader::BoxImage& box);
  // CallSummary::source of all findings.
  void FillIn(diagnosis::Diagnosis* diagnosis);
  // The same with lines in place of "module+0x1234" in all its texts.
  diagnosis::Diagnosis ForPeople(diagnosis::Diagnosis diagnosis);

 private:
  // With the line, where the debug information tells it and there is none yet.
  void AddLine(std::optional<diagnosis::SourcePlace>* source);
  void Know(const std::string& name, std::int64_t real_ns);
  std::string Named(const std::string& text);

  stacks::SourceLines lines_;
  absl::flat_hash_map<std::string, std::int64_t> named_real_ns_;  // by name: when it was named, CLOCK_REALTIME
  absl::flat_hash_map<std::string, std::string> short_names_;     // "module+0x1234" -> its name; empty: of several
  absl::flat_hash_map<std::string, std::optional<diagnosis::SourcePlace>> found_;
};

}  // namespace ncclwatch::analyzer
