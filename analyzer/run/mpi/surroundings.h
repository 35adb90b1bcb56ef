// Where the job's programs and libraries are looked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analyzer/stacks/base/elf_file.h"

namespace ncclwatch::analyzer {

struct Surroundings {
  std::string folder;                       // where relative paths begin
  std::vector<std::string> path;            // PATH
  std::vector<std::string> libraries;       // LD_LIBRARY_PATH
  std::vector<std::string> python_path;     // PYTHONPATH
  std::string home;                         // with the user's own Python packages; empty: none
  std::string loader_cache;                 // ld.so.cache
  std::vector<std::string> system_folders;  // of libraries, where all else fails

  static Surroundings OfThisProcess();
  // The file that this word of a command means, as exec would find it, links not yet resolved. Empty if there is none.
  std::string FindProgram(const std::string& word) const;
};

std::vector<std::string> SplitFolders(const std::string& list);  // at colons; an empty one is "."

// Null if it is no ELF file of this machine's width. Never waits, whatever kind of file it is.
std::shared_ptr<stacks::ElfFile> OpenElf(const std::string& path);
// The words of its first line after `#!`; none if it is no script.
std::vector<std::string> Interpreter(const std::string& path);

// These bytes, anywhere in the first 256 MB.
bool FileHas(const std::string& path, const std::string& word);

std::string FileName(const std::string& path);
std::string FolderOf(const std::string& path);
bool IsFile(const std::string& path);  // a regular one, or a link to it
// All links followed; the path itself where that fails.
std::string Resolved(const std::string& path);

}  // namespace ncclwatch::analyzer
