// A made-up installation: a folder of its own with ELF files of a few hundred bytes, scripts and links.
#pragma once

#include <string>
#include <vector>

#include "analyzer/run/mpi/surroundings.h"

namespace ncclwatch::analyzer {

struct TinyElf {
  std::vector<std::string> needed = {};
  std::string rpath = {}, runpath = {};
  std::string defines = {};   // a function in its symbol table
  std::string text = {};      // somewhere among its bytes
  std::uint16_t machine = 0;  // 0: this one's
};
std::string Bytes(const TinyElf& elf);

class MadeUp {
 public:
  MadeUp();
  ~MadeUp();
  MadeUp(const MadeUp&) = delete;
  MadeUp& operator=(const MadeUp&) = delete;

  const std::string& root() const { return root_; }
  // All names are below the root, whose folders are made as needed; the path is returned. Files can be executed.
  std::string Elf(const std::string& name, const TinyElf& elf = {});
  std::string Text(const std::string& name, const std::string& text);
  std::string Link(const std::string& name, const std::string& to);
  // Nothing of the real machine: bin in PATH, lib as the system's folder.
  Surroundings here() const;
  // libmpi.so.40 with what it needs, libmpich.so.12: in `folder`.
  void OpenMpi(const std::string& folder);
  void Mpich(const std::string& folder);

 private:
  std::string Place(const std::string& name);
  std::string root_;
};

}  // namespace ncclwatch::analyzer
