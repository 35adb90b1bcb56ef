#include "analyzer/triage/prefix.h"

#include <absl/strings/numbers.h>
#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace ncclwatch::analyzer {
namespace {

bool EatNumber(std::string_view* text, int* number) {
  constexpr std::size_t kDigits = 9;
  std::size_t digits = 0;
  int value = 0;
  for (; digits < text->size() && digits < kDigits && std::isdigit(static_cast<unsigned char>((*text)[digits]));
       ++digits)
    value = value * 10 + ((*text)[digits] - '0');
  if (digits == 0) return false;
  text->remove_prefix(digits);
  *number = value;
  return true;
}

bool Eat(std::string_view* text, std::string_view word) {
  if (text->substr(0, word.size()) != word) return false;
  text->remove_prefix(word.size());
  return true;
}

void EatSpace(std::string_view* text) {
  if (!text->empty() && text->front() == ' ') text->remove_prefix(1);
}

// "[WORD N]:" and "[WORDN]:"
bool EatBracket(std::string_view* text, std::string_view word, int* number) {
  std::string_view rest = *text;
  int read = 0;
  if (!Eat(&rest, "[") || !Eat(&rest, word)) return false;
  EatSpace(&rest);
  if (!EatNumber(&rest, &read) || !Eat(&rest, "]:")) return false;
  EatSpace(&rest);
  *number = read;
  *text = rest;
  return true;
}

// Open MPI's tag: "[1,3]<stderr>:"; since version 5 "[prterun-node1-77@1,3]<stderr>: ". A time may stand before it.
bool EatMpi(std::string_view* text, int* number) {
  constexpr std::size_t kWithin = 80;
  const std::size_t behind = text->substr(0, kWithin).find("]<std");
  if (behind == std::string_view::npos) return false;
  const std::size_t end = text->find(">:", behind);
  const std::size_t begin = text->rfind('[', behind);
  if (end == std::string_view::npos || end > behind + 9 || begin == std::string_view::npos) return false;
  std::string_view tag = text->substr(begin + 1, behind - begin - 1);
  int read = 0;
  tag.remove_prefix(std::min(tag.find(',') + 1, tag.size()));
  if (!EatNumber(&tag, &read) || !tag.empty()) return false;
  *number = read;
  text->remove_prefix(end + 2);
  EatSpace(text);
  return true;
}

bool EatNumbered(std::string_view* text, int* number) {
  std::string_view rest = text->substr(std::min(text->find_first_not_of(' '), text->size()));
  int read = 0;
  if (!EatNumber(&rest, &read) || !Eat(&rest, ":") || (!rest.empty() && rest.front() != ' ')) return false;
  EatSpace(&rest);
  *number = read;
  *text = rest;
  return true;
}

bool EatBracketed(std::string_view* text, int* number) {
  std::string_view rest = *text;
  int read = 0;
  if (!Eat(&rest, "[") || !EatNumber(&rest, &read) || !Eat(&rest, "]") || (!rest.empty() && rest.front() != ' '))
    return false;
  EatSpace(&rest);
  *number = read;
  *text = rest;
  return true;
}

bool IsHostLetter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) || letter == '-' || letter == '.' || letter == '_';
}

bool EatHost(std::string_view* text, std::string_view* host) {
  std::size_t end = 0;
  while (end < text->size() && IsHostLetter((*text)[end])) ++end;
  if (end == 0 || text->substr(end, 2) != ": ") return false;
  *host = text->substr(0, end);
  text->remove_prefix(end + 2);
  return true;
}

// "(Worker_TP3 pid=4711) ", "(RayTrainWorker pid=4711, ip=10.0.0.3) ".
bool EatActor(std::string_view* text, LinePrefix* prefix) {
  constexpr std::size_t kWithin = 100;
  if (text->empty() || text->front() != '(') return false;
  const std::size_t end = text->substr(0, kWithin).find(')');
  if (end == std::string_view::npos) return false;
  const std::string_view actor = text->substr(1, end - 1);
  const std::size_t pid = actor.find("pid=");
  if (pid == std::string_view::npos) return false;
  std::string_view number = actor.substr(pid + 4);
  if (!EatNumber(&number, &prefix->pid)) return false;
  for (const std::string_view word : {"rank=", "_TP", "Worker TP"}) {
    const std::size_t said = actor.find(word);
    if (said >= pid) continue;
    number = actor.substr(said + word.size());
    EatNumber(&number, &prefix->rank);
  }
  if (const std::size_t ip = actor.find("ip="); ip != std::string_view::npos)
    prefix->host = actor.substr(ip + 3, actor.substr(ip + 3).find_first_of(" ,"));
  text->remove_prefix(end + 1);
  EatSpace(text);
  return true;
}

// The time that Kubernetes puts before each line: "2026-11-26T12:00:03.799412331Z ".
bool EatTime(std::string_view* text) {
  constexpr std::string_view kShape = "0000-00-00T00:00:00";
  constexpr std::size_t kWithin = 32;
  if (text->size() < kShape.size() || (*text)[10] != 'T' || (*text)[4] != '-' || (*text)[13] != ':') return false;
  const std::size_t end = text->substr(0, kWithin).find("Z ");
  if (end == std::string_view::npos) return false;
  text->remove_prefix(end + 2);
  return true;
}

constexpr std::size_t kStyleLines = 200;  // lines

template <typename Has>
bool NearlyAll(std::string_view block, Has has) {
  std::size_t lines = 0, with = 0;
  for (; !block.empty() && lines < kStyleLines; ++lines) {
    const std::size_t end = std::min(block.find('\n'), block.size());
    with += has(block.substr(0, end));
    block.remove_prefix(std::min(end + 1, block.size()));
  }
  return lines > 0 && with * 10 >= lines * 9;
}

}  // namespace

PrefixStyle StyleOf(std::string_view block) {
  PrefixStyle style;
  style.numbered = NearlyAll(block, [](std::string_view line) {
    int number = 0;
    return EatNumbered(&line, &number);
  });
  style.bracketed = NearlyAll(block, [](std::string_view line) {
    int number = 0;
    return EatBracketed(&line, &number);
  });
  std::set<std::string> hosts;
  const bool all = NearlyAll(block, [&](std::string_view line) {
    std::string_view host;
    return EatHost(&line, &host) && (hosts.emplace(host), true);
  });
  // Words such as "INFO: " have no digit, and numbers are ranks.
  style.hosts = all && !style.numbered && std::all_of(hosts.begin(), hosts.end(), [](const std::string& host) {
                  return host.find_first_of("0123456789") != std::string::npos;
                });
  return style;
}

LinePrefix ParsePrefix(std::string_view line, const PrefixStyle& style) {
  LinePrefix prefix;
  EatTime(&line);
  if (style.hosts) EatHost(&line, &prefix.host);
  for (bool more = true; more && !line.empty();) {
    more = EatBracket(&line, "rank", &prefix.rank) || EatBracket(&line, "default", &prefix.local_rank) ||
           (prefix.rank < 0 && EatMpi(&line, &prefix.rank)) || (prefix.pid < 0 && EatActor(&line, &prefix)) ||
           (style.numbered && prefix.rank < 0 && EatNumbered(&line, &prefix.rank)) ||
           (style.bracketed && prefix.rank < 0 && EatBracketed(&line, &prefix.rank));
  }
  prefix.rest = line;
  return prefix;
}

Speaker SpeakerOf(std::string_view line) {
  const re2::StringPiece text(line.data(), line.size());
  Speaker said;
  static const RE2 rank(
      R"(\[[^\]]*[Rr]ank (\d+)\]|\[(?:rank: |RANK:|rank=)(\d+)\]|\(\w*Worker[ _]?(?:TP|rank=)(\d+) pid=(\d+)\)|^\[[^\]]*\bTP(\d+)\b[^\]]*\])");
  static const RE2 nccl(R"(([A-Za-z0-9][\w.-]*):(\d+):\d+ \[(\d+)\] NCCL)");
  std::string c10d, logger, worker, pid, sglang;
  if (RE2::PartialMatch(text, rank, &c10d, &logger, &worker, &pid, &sglang)) {
    for (const std::string* const number : {&c10d, &logger, &worker, &sglang})
      if (!number->empty() && !absl::SimpleAtoi(*number, &said.rank)) said.rank = -1;
    if (!absl::SimpleAtoi(pid, &said.pid)) said.pid = -1;
  }
  if (RE2::PartialMatch(text, nccl, &said.host, &said.pid, &said.local_rank)) return said;
  static const RE2 kernel(R"(^\S+ +\d+ [\d:.]+ ([\w.-]+) (?:kernel|systemd)|^\d{4}-\S+ ([\w.-]+) kernel:)");
  std::string iso;
  if (RE2::PartialMatch(text, kernel, &said.host, &iso) && said.host.empty()) said.host = iso;
  return said;
}

}  // namespace ncclwatch::analyzer
