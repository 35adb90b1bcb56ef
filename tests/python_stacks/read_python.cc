// What the tests see of the reader:
//   read_python dump PID            the threads as JSON
//   read_python variables PID       for each thread the numbers among the local variables of its frames, as JSON
//   read_python loop PID N [MS]     N times, one every MS milliseconds: what that took, what went wrong and which calls
//                                   exact stacks had, as JSON
//   read_python corrupt PID N SEED  N times with damage to what is read, as it ends for any memory
//   read_python lines MINOR         from stdin, a line each: table in hexadecimal ("-" if empty), first line, then
//   pairs
//                                   of offset and line; says which are decoded in another way, exit status 1
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "analyzer/stacks/precedence.h"
#include "analyzer/stacks/python/find.h"
#include "analyzer/stacks/python/python.h"
#include "analyzer/stacks/python/threads.h"
#include "watchdog/cpython/line_table.h"

namespace {

using namespace ncclwatch::stacks;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

python::Stacks ReadOf(int pid) {
  Memory memory(pid);
  Modules modules(&memory, nullptr);
  return python::Read(pid, &modules);
}

json AsJson(const python::Stacks& stacks) {
  static const std::map<python::Gil, const char*> kGil = {{python::Gil::kUnknown, "unknown"},
                                                          {python::Gil::kHeld, "held"},
                                                          {python::Gil::kNotHeld, "not held"},
                                                          {python::Gil::kNone, "none"}};
  json threads = json::array();
  for (const python::Thread& thread : stacks.threads) {
    json frames = json::array();
    for (const python::Frame& frame : thread.frames)
      frames.push_back({frame.function, frame.file, frame.line, frame.entry});
    threads.push_back({{"tid", thread.tid},
                       {"interpreter", thread.interpreter},
                       {"gil", kGil.at(thread.gil)},
                       {"exact", thread.exact},
                       {"cut", thread.cut},
                       {"trouble", thread.trouble},
                       {"frames", frames}});
  }
  return {{"present", stacks.present}, {"version", stacks.version}, {"trouble", stacks.trouble}, {"threads", threads}};
}

int Dump(int pid) {
  const auto begin = Clock::now();
  const python::Stacks stacks = ReadOf(pid);
  json answer = AsJson(stacks);
  answer["milliseconds"] = Milliseconds(Clock::now() - begin);
  std::cout << answer.dump(1, ' ', false, json::error_handler_t::replace) << '\n';
  return 0;
}

int Variables(int pid) {
  Memory memory(pid);
  Modules modules(&memory, nullptr);
  json threads = json::object();
  for (const python::Thread& thread : python::Read(pid, &modules, python::Want::kVariables).threads) {
    json frames = json::array();
    for (const python::Frame& frame : thread.frames) {
      json numbers = json::object();
      for (const python::Variable& one : frame.numbers) numbers[one.name] = one.value;
      frames.push_back({frame.function, numbers});
    }
    threads[std::to_string(thread.tid)] = frames;
  }
  std::cout << threads.dump() << '\n';
  return 0;
}

using Place = std::tuple<std::string, std::string, int>;
Place PlaceOf(const python::Frame& frame) { return {frame.function, frame.file, frame.line}; }

int Loop(int pid, int times, int every_ms) {
  TakePrecedence();
  std::vector<double> took;
  std::map<std::string, int> troubles;
  std::set<std::pair<Place, Place>> calls;  // that stacks known to be exact have
  long threads = 0, exact = 0, frames = 0;
  int present = 0;
  for (int i = 0; i < times; ++i) {
    const auto begin = Clock::now();
    const python::Stacks stacks = ReadOf(pid);
    took.push_back(Milliseconds(Clock::now() - begin));
    present += stacks.present && !stacks.threads.empty();
    if (!stacks.trouble.empty()) ++troubles[stacks.trouble];
    for (const python::Thread& thread : stacks.threads) {
      ++threads;
      exact += thread.exact;
      frames += static_cast<long>(thread.frames.size());
      if (!thread.trouble.empty()) ++troubles["thread: " + thread.trouble];
      for (std::size_t frame = 0; thread.exact && frame + 1 < thread.frames.size(); ++frame)
        calls.emplace(PlaceOf(thread.frames[frame]), PlaceOf(thread.frames[frame + 1]));
    }
    if (every_ms > 0) std::this_thread::sleep_until(begin + std::chrono::milliseconds(every_ms));
  }
  std::sort(took.begin(), took.end());
  const json answer = {
      {"dumps", times},
      {"with_threads", present},
      {"threads", threads},
      {"exact", exact},
      {"frames", frames},
      {"milliseconds",
       {{"median", took[took.size() / 2]}, {"p99", took[took.size() * 99 / 100]}, {"longest", took.back()}}},
      {"troubles", troubles},
      {"calls", calls}};
  std::cout << answer.dump() << '\n';
  return 0;
}

// One read in so many comes back damaged: bits, numbers, or a pointer that was seen elsewhere.
class Damaging : public Reader {
 public:
  Damaging(Reader* behind, std::uint32_t seed) : behind_(behind), random_(seed), every_(1u << random_() % 12) {}
  bool Read(std::uint64_t address, void* to, std::size_t bytes) override {
    ++reads_;
    const bool read = behind_->Read(address, to, bytes);
    if (!read || bytes == 0) return read;
    auto* const out = static_cast<std::uint8_t*>(to);
    if (bytes == sizeof(std::uint64_t)) std::memcpy(&seen_[random_() % std::size(seen_)], out, bytes);
    if (random_() % every_ != 0) return read;
    const std::uint64_t values[] = {0, 1, UINT64_MAX, random_(), seen_[random_() % std::size(seen_)], address};
    const std::uint64_t value = values[random_() % std::size(values)];
    switch (random_() % 4) {
      case 0: out[random_() % bytes] ^= static_cast<std::uint8_t>(1u << random_() % 8); break;
      case 1: out[random_() % bytes] = static_cast<std::uint8_t>(random_()); break;
      case 2: std::memcpy(out, &value, std::min(bytes, sizeof(value))); break;
      case 3: return false;
    }
    return true;
  }
  void Forget() override { behind_->Forget(); }
  std::size_t reads() const { return reads_; }

 private:
  Reader* behind_;
  std::mt19937 random_;
  std::uint32_t every_;
  std::uint64_t seen_[64] = {};
  std::size_t reads_ = 0;
};

int Corrupt(int pid, int times, std::uint32_t seed) {
  Memory memory(pid);
  Modules modules(&memory, nullptr);
  const python::Runtime runtime = python::Find(&memory, &modules);
  const python::Tasks tasks = python::TasksOf(pid);
  if (!runtime.layout) return 1;
  double longest = 0;
  std::size_t most = 0, threads = 0, frames = 0, exact = 0;
  for (int i = 0; i < times; ++i) {
    Damaging damaging(&memory, seed + static_cast<std::uint32_t>(i));
    const auto begin = Clock::now();
    // Where it says its layout, damage to that first.
    const python::SaidLayout said = python::ReadLayout(&damaging, runtime.address);
    const python::Layout& layout = said.layout && i % 4 == 0 ? *said.layout : *runtime.layout;
    const python::Stacks stacks =
        python::ReadThreads(&damaging, layout, runtime.address, tasks, python::Want::kVariables);
    longest = std::max(longest, Milliseconds(Clock::now() - begin));
    most = std::max(most, damaging.reads());
    threads += stacks.threads.size();
    for (const python::Thread& thread : stacks.threads) {
      frames += thread.frames.size();
      exact += thread.exact;
    }
  }
  std::cout << json{{"readings", times},  {"longest_milliseconds", longest},
                    {"most_reads", most}, {"threads", threads},
                    {"frames", frames},   {"exact", exact}}
            << '\n';
  return 0;
}

std::string Unhexed(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

int Lines(int minor) {
  long wrong = 0, places = 0, codes = 0;
  for (std::string record; std::getline(std::cin, record); ++codes) {
    std::istringstream words(record);
    std::string table;
    int first_line = 0, line = 0;
    long offset = 0;
    words >> table >> first_line;
    table = Unhexed(table);
    for (; words >> offset >> line; ++places) {
      const int got = python::LineAt(minor, table, first_line, offset);
      if (got == line || ++wrong > 10) continue;
      std::cout << "code " << codes << " of first line " << first_line << ", offset " << offset << ": " << got
                << ", Python says " << line << '\n';
    }
  }
  std::cout << codes << " codes, " << places << " places, " << wrong << " wrong\n";
  return wrong == 0 && places > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  if (what == "dump") return Dump(number);
  if (what == "variables") return Variables(number);
  if (what == "lines") return Lines(number);
  if (what == "loop" && argc > 3) return Loop(number, std::atoi(argv[3]), argc > 4 ? std::atoi(argv[4]) : 0);
  if (what == "corrupt" && argc > 4)
    return Corrupt(number, std::atoi(argv[3]), static_cast<std::uint32_t>(std::atol(argv[4])));
  std::fprintf(stderr,
               "usage: read_python dump PID | variables PID | loop PID N [MS] | corrupt PID N SEED | lines MINOR\n");
  return 2;
}
