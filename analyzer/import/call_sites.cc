#include "analyzer/import/call_sites.h"

#include <fmt/core.h>

#include <string>

namespace ncclwatch::analyzer::import {
namespace {

constexpr std::size_t kMostFrames = 64;     // that are looked through for the application's own
constexpr std::size_t kMostSiteText = 256;  // of a name: an input may use one long string any number of times

bool OfTorch(std::string_view file) {
  for (const std::string_view part : {"/torch/distributed/", "-packages/torch/", "-packages/torchcomms/"})
    if (file.find(part) != std::string_view::npos) return true;
  return file.empty() || file.starts_with("torch/");
}

}  // namespace

std::uint32_t CallSites::LookAt(ValueId frame) {
  if (!tree_.Is(frame, ValueKind::kDictionary)) return 0;
  std::string name, file, line;
  Key key = Key::kOther;
  bool is_key = true;
  tree_.Each(frame, 16, [&](ValueId value) {
    if (is_key)
      key = words_.Of(value).key;
    else if (key == Key::kName)
      name = words_.Of(value).text.substr(0, kMostSiteText);
    else if (key == Key::kFilename)
      file = words_.Of(value).text.substr(0, kMostSiteText);
    else if (key == Key::kLine && tree_.Is(value, ValueKind::kInteger))
      line = fmt::format("{}", tree_.integer(value));
    is_key = !is_key;
  });
  if (OfTorch(file)) return 0;
  reader::CallSite site;
  site.address = box_.call_sites.size() + 1;
  site.name = line == "0" ? name : fmt::format("{}:{} in {}", file, line, name);
  box_.call_sites.push_back(std::move(site));
  return static_cast<std::uint32_t>(box_.call_sites.size());
}

// The innermost frame that is not torch's own.
std::uint64_t CallSites::Of(ValueId frames) {
  if (!tree_.Is(frames, ValueKind::kList)) return 0;
  std::uint32_t site = 0;
  tree_.Each(frames, kMostFrames, [&](ValueId frame) {
    if (site != 0) return;
    if (site_of_[frame] == kNotLookedAt) site_of_[frame] = LookAt(frame);
    site = site_of_[frame];
  });
  return site;
}

}  // namespace ncclwatch::analyzer::import
