#include "analyzer/import/debug_page.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_replace.h>

#include <charconv>

namespace ncclwatch::analyzer::import {
namespace {

constexpr std::string_view kRank = "<h2>Rank ", kBegin = "<pre>", kEnd = "</pre>";

// As the server's templates escape text.
std::string Unescaped(std::string_view text) {
  return absl::StrReplaceAll(
      absl::string_view(text.data(), text.size()),
      {{"&#34;", "\""}, {"&quot;", "\""}, {"&#39;", "'"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}});
}

}  // namespace

bool LooksLikePage(std::string_view bytes) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  const std::string_view begin = bytes.substr(first);
  const absl::string_view text(begin.data(), begin.size());
  return absl::StartsWithIgnoreCase(text, "<!doctype html") || absl::StartsWithIgnoreCase(text, "<html");
}

std::vector<DumpInPage> DumpsInPage(std::string_view page) {
  std::vector<DumpInPage> dumps;
  for (std::size_t at = page.find(kRank); at != std::string_view::npos;) {
    const std::size_t next = page.find(kRank, at + kRank.size());
    const std::string_view part = page.substr(at + kRank.size(), next == std::string_view::npos ? next : next - at);
    at = next;
    DumpInPage dump;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), dump.rank);
    const std::size_t begin = part.find(kBegin), end = part.find(kEnd);
    if (error != std::errc() || begin == std::string_view::npos) continue;
    const std::size_t from = begin + kBegin.size();
    dump.text = Unescaped(part.substr(from, end == std::string_view::npos || end < from ? end : end - from));
    dumps.push_back(std::move(dump));
  }
  return dumps;
}

}  // namespace ncclwatch::analyzer::import
