#include "analyzer/stacks/python/find.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

namespace ncclwatch::stacks::python {
namespace {

constexpr char kRuntimeSymbol[] = "_PyRuntime";
constexpr std::size_t kMostData = 64 << 20;  // bytes of a module that are searched for the cookie

// The interpreter's library first, then its program, then whatever else may have it inside (a program that embeds it).
std::vector<std::size_t> Candidates(const Modules& modules) {
  std::vector<std::size_t> libraries, programs, others;
  bool python = false;
  const std::vector<Module>& all = modules.all();
  for (const Mapping& mapping : modules.maps().all()) python |= mapping.path.find("python") != std::string::npos;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name.starts_with("libpython"))
      libraries.push_back(i);
    else if (all[i].name.starts_with("python"))
      programs.push_back(i);
    // Extension modules show that there is a Python; a library that has one inside calls itself so.
    else if (python &&
             (all[i].name.find(".so") == std::string::npos || all[i].name.find("python") != std::string::npos))
      others.push_back(i);
  }
  libraries.insert(libraries.end(), programs.begin(), programs.end());
  libraries.insert(libraries.end(), others.begin(), others.end());
  return libraries;
}

// From 3.13 on _PyRuntime begins with a cookie, for files whose symbols cannot be had.
std::uint64_t FindCookie(Reader* memory, const Maps& maps, const Module& module) {
  for (const Mapping& mapping : maps.all()) {
    if (mapping.begin < module.begin || mapping.end > module.end || !mapping.writable || mapping.inode == 0) continue;
    const std::uint64_t end = std::min<std::uint64_t>(mapping.end, mapping.begin + kMostData);
    for (std::uint64_t page = mapping.begin; page < end; page += kPageBytes) {
      std::array<std::uint64_t, kPageBytes / sizeof(std::uint64_t)> words;
      if (!memory->Read(page, words.data(), sizeof(words))) break;
      for (std::size_t i = 0; i < words.size(); ++i)
        if (std::memcmp(&words[i], kDebugCookie, sizeof(words[i])) == 0) return page + i * sizeof(words[i]);
    }
  }
  return 0;
}

// 3.9 to 3.12: their tables go by the minor version. 3.11 began to export its version; before, interfaces that came
// with a version tell it.
void IdentifyBySymbols(Reader* memory, const Module& module, Runtime* runtime) {
  int minor = 0;
  if (const std::uint64_t address = module.AddressOf("Py_Version")) {
    const auto version = memory->Value<std::uint32_t>(address);
    if (version && *version >> 24 == 3) {
      minor = static_cast<int>(*version >> 16 & 0xff);
      runtime->version = VersionText(*version);
    }
  } else if (module.AddressOf("PyFrame_GetCode") != 0) {
    minor = module.AddressOf("PyModule_AddObjectRef") != 0 ? 10 : 9;
    runtime->version = fmt::format("3.{}", minor);
  }
  if (minor >= kFirstSayingMinor) return;  // those say their layout or have none that could be trusted
  runtime->layout = KnownLayout(minor, false);
  // Debug builds have further fields in between; they alone have this function.
  if (module.AddressOf("_Py_NegativeRefcount") != 0) runtime->layout.reset();
}

}  // namespace

Runtime Find(Reader* memory, Modules* modules) {
  Runtime runtime;
  for (const std::size_t index : Candidates(*modules)) {
    const Module& module = modules->Opened(index);
    runtime.address = module.AddressOf(kRuntimeSymbol);
    if (runtime.address == 0 && module.name.find("python") != std::string::npos)
      runtime.address = FindCookie(memory, modules->maps(), module);
    if (runtime.address == 0) continue;
    runtime.present = true;
    runtime.module = index;
    const SaidLayout said = ReadLayout(memory, runtime.address);
    if (said.version != 0) {
      runtime.layout = said.layout;
      runtime.version = VersionText(said.version);
      if (!runtime.layout) runtime.trouble = "Python " + runtime.version + ": " + said.trouble;
      return runtime;
    }
    IdentifyBySymbols(memory, module, &runtime);
    if (!runtime.layout)
      runtime.trouble = "this build of Python" + (runtime.version.empty() ? "" : " " + runtime.version) +
                        " is not known: CPython 3.9 to 3.15 is read, debug builds from 3.13 on";
    return runtime;
  }
  return runtime;
}

PythonMemory::PythonMemory(Reader* behind, const Maps& maps, const Module& module)
    : behind_(behind), maps_(maps), module_(module) {}

bool PythonMemory::MayRead(std::uint64_t address) const {
  const Mapping* const mapping = maps_.At(address);
  if (!mapping) return true;  // new since: there or not, the kernel says
  if (!mapping->readable) return false;
  return mapping->inode == 0 ? !mapping->path.starts_with("[v") : mapping->path == module_.path;
}

bool PythonMemory::Read(std::uint64_t address, void* to, std::size_t bytes) {
  if (bytes == 0) return true;
  const std::uint64_t last = address + bytes - 1;
  return last >= address && MayRead(address) && MayRead(last) && behind_->Read(address, to, bytes);
}

}  // namespace ncclwatch::stacks::python
