// The files that NCCL Inspector leaves, one for each process: JSON lines, also compressed by gzip.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "analyzer/import/inspector/operation.h"
#include "core/reader/box.h"

namespace ncclwatch::analyzer::import::inspector {

struct Recording {
  std::map<Member, std::vector<Operation>> operations;  // of each, in the order of the lines
  std::vector<std::string> complaints;                  // "FILE:LINE: what is wrong", at most one of each file
  std::size_t lines = 0;                                // that were read well
  std::size_t damaged = 0;                              // lines that could not be
  std::size_t unknown = 0;                              // ... that tell of operations which are not known here
  std::size_t untimed = 0;                              // ... whose time was not measured on the GPU
  std::size_t passed_over = 0;                          // the oldest ones, where there are too many
};

// Those files of a directory, by their first line.
std::vector<std::string> FilesIn(const std::string& directory);
bool IsFile(const std::string& path);

// By several threads; `done` is called with how many files have been read.
Recording Read(const std::vector<std::string>& files, const std::function<void(std::size_t)>& done);

// For the fuzzers: what Read() does with the bytes of one file.
void ReadText(const std::string& name, std::string_view text, Recording* recording);

}  // namespace ncclwatch::analyzer::import::inspector
