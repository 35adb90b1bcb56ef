#include "analyzer/stacks/names/name_frames.h"

#include "analyzer/stacks/names/shorten.h"

namespace ncclwatch::stacks {
namespace {

std::uint64_t PlaceOf(const RawFrame& frame) { return frame.exact ? frame.pc : frame.pc - 1; }

void Learn(const std::vector<Walk>& walks, Modules* modules, NameCache* names) {
  std::map<std::shared_ptr<ElfFile>, std::vector<std::uint64_t>> wanted;
  for (const Walk& walk : walks) {
    for (const RawFrame& frame : walk.frames) {
      const Module* const module = modules->At(PlaceOf(frame));
      if (module && module->file) wanted[module->file].push_back(PlaceOf(frame) - module->bias);
    }
  }
  for (const auto& [file, addresses] : wanted) names->Learn(file, addresses);
}

Frame Named(const RawFrame& raw, Modules* modules, const NameCache& names) {
  Frame frame;
  frame.address = raw.pc;
  frame.guessed = raw.guessed;
  frame.registers = raw.registers;
  frame.base = raw.base;
  const Module* const module = modules->At(PlaceOf(raw));
  if (!module) return frame;
  frame.module = module->name;
  frame.module_path = module->path;
  frame.module_address = PlaceOf(raw) - module->bias;
  if (module->file) frame.function = names.NameOf(module->file, frame.module_address);
  return frame;
}

}  // namespace

void NameCache::Learn(const std::shared_ptr<ElfFile>& file, const std::vector<std::uint64_t>& addresses) {
  auto& known = names_[file];
  std::vector<std::uint64_t> fresh;
  for (const std::uint64_t address : addresses)
    if (known.try_emplace(address).second) fresh.push_back(address);
  if (fresh.empty()) return;
  const auto symbols = file->FunctionsAt(fresh);
  std::vector<std::uint64_t> unnamed;
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    if (symbols[i])
      known[fresh[i]] = ReadableName(symbols[i]->name);
    else
      unnamed.push_back(fresh[i]);
  }
  if (unnamed.empty() || !file->stripped()) return;
  const auto [debug, first] = debug_files_.try_emplace(file);
  if (first) debug->second = DebugFileOf(*file);
  if (!debug->second) return;
  const auto more = debug->second->FunctionsAt(unnamed);
  for (std::size_t i = 0; i < unnamed.size(); ++i)
    if (more[i]) known[unnamed[i]] = ReadableName(more[i]->name);
}

const std::string& NameCache::NameOf(const std::shared_ptr<ElfFile>& file, std::uint64_t address) const {
  static const std::string none;
  const auto of_file = names_.find(file);
  if (of_file == names_.end()) return none;
  const auto name = of_file->second.find(address);
  return name == of_file->second.end() ? none : name->second;
}

std::vector<std::vector<Frame>> NameFrames(const std::vector<Walk>& walks, Modules* modules, NameCache* names) {
  Learn(walks, modules, names);
  std::vector<std::vector<Frame>> named(walks.size());
  for (std::size_t i = 0; i < walks.size(); ++i)
    for (const RawFrame& raw : walks[i].frames) named[i].push_back(Named(raw, modules, *names));
  return named;
}

}  // namespace ncclwatch::stacks
