#include "analyzer/stacks/base/modules.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace ncclwatch::stacks {
namespace {

constexpr char kVdso[] = "[vdso]";

bool IsCode(const Mapping& mapping) { return mapping.executable && (mapping.inode != 0 || mapping.path == kVdso); }

bool SameFile(const Mapping& a, const Mapping& b) {
  return a.inode == b.inode && a.device_major == b.device_major && a.device_minor == b.device_minor && a.path == b.path;
}

int OpenForReading(const std::string& path) { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); }

bool IsFileOf(int fd, const Mapping& mapping) {
  struct stat status {};
  return fstat(fd, &status) == 0 && status.st_ino == mapping.inode && major(status.st_dev) == mapping.device_major &&
         minor(status.st_dev) == mapping.device_minor;
}

std::int64_t Nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

// The file's code has the place and the length of the mapping.
bool Fits(const ElfFile& file, const Mapping& code) {
  const std::uint64_t end = code.offset + (code.end - code.begin);
  return file.AddressOfOffset(code.offset, true) && file.AddressOfOffset(end - kPageBytes, true) &&
         !file.AddressOfOffset(end, true);
}

std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::uint64_t Module::AddressOf(std::string_view symbol) const {
  const auto found = file ? file->Named(symbol) : std::nullopt;
  return found ? found->address + bias : 0;
}

std::shared_ptr<ElfFile> FileCache::Find(const Mapping& mapping) const {
  const auto found = files_.find({mapping.device_major, mapping.device_minor, mapping.inode});
  return found == files_.end() ? nullptr : found->second;
}

void FileCache::Keep(const Mapping& mapping, std::shared_ptr<ElfFile> file) {
  files_[{mapping.device_major, mapping.device_minor, mapping.inode}] = std::move(file);
}

Modules::Modules(Memory* memory, FileCache* files)
    : memory_(memory), files_(files ? files : &own_files_), maps_(Maps::Of(memory->pid())) {
  ListModules();
}

Modules::Modules(Memory* memory, FileCache* files, Maps maps, std::int64_t at_real_ns)
    : memory_(memory), files_(files ? files : &own_files_), maps_(std::move(maps)), gone_since_ns_(at_real_ns) {
  ListModules();
}

void Modules::ListModules() {
  const std::vector<Mapping>& all = maps_.all();
  std::size_t run = 0;  // where the mappings of the present file begin
  bool listed = false;
  module_of_.assign(all.size(), kNone);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Mapping& mapping = all[i];
    if (mapping.inode == 0 && mapping.path != kVdso) continue;  // memory of the program between a file's mappings
    // One file may be loaded twice (dlmopen): the second one begins anew.
    if (i == 0 || !SameFile(all[run], mapping) || mapping.offset == 0) {
      run = i;
      listed = false;
    }
    if (IsCode(mapping) && !listed) {
      modules_.push_back({mapping.path, LastPart(mapping.path), all[run].begin, mapping.end, 0, nullptr});
      code_.push_back(i);
      listed = true;
    }
    if (!listed) continue;
    modules_.back().end = mapping.end;
    if (mapping.executable) module_of_[i] = modules_.size() - 1;
  }
  opened_.assign(modules_.size(), false);
}

const Module* Modules::At(std::uint64_t address) {
  const Mapping* const mapping = maps_.At(address);
  if (!mapping) return nullptr;
  const std::size_t index = module_of_[static_cast<std::size_t>(mapping - maps_.all().data())];
  return index == kNone ? nullptr : &Opened(index);
}

const Module& Modules::Opened(std::size_t index) {
  if (!opened_[index]) {
    opened_[index] = true;
    Open(&modules_[index], maps_.all()[code_[index]]);
  }
  return modules_[index];
}

std::optional<std::size_t> Modules::Starting(std::string_view prefix, std::size_t from) const {
  for (std::size_t i = from; i < modules_.size(); ++i)
    if (modules_[i].name.starts_with(prefix)) return i;
  return std::nullopt;
}

void Modules::Open(Module* module, const Mapping& code) {
  if (code.path == kVdso) {
    module->file = ElfFile::OfMemory(memory_, module->begin, module->end - module->begin);
  } else if ((module->file = files_->Find(code)) == nullptr) {
    module->file = OpenFile(code);
    if (module->file) files_->Keep(code, module->file);
  }
  if (module->file) {
    if (const auto address = module->file->AddressOfOffset(code.offset, true)) {
      module->bias = code.begin - *address;
      if (gone_since_ns_) {  // only mappings of code are known
        module->begin = std::min(module->begin, module->bias + module->file->FirstAddress());
        module->end = std::max(module->end, module->bias + module->file->EndAddress());
      }
      return;
    }
    module->file = nullptr;
  }
  // Neither by its mapping nor by its name: what the process has of it in memory.
  module->file = ElfFile::OfMemory(memory_, module->begin, module->end - module->begin);
  if (module->file) module->bias = module->begin - module->file->FirstAddress();
}

// An overlay shows other device numbers than it maps. Then a file counts that was there before and has the same shape.
std::shared_ptr<ElfFile> Modules::OpenSince(const Mapping& mapping) const {
  const int fd = mapping.deleted ? -1 : OpenForReading(mapping.path);
  if (fd < 0) return nullptr;
  struct stat status {};
  const bool plain = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  const bool same = IsFileOf(fd, mapping);
  std::shared_ptr<ElfFile> file = ElfFile::OfDescriptor(fd);
  if (!plain || !file || Nanoseconds(same ? status.st_mtim : status.st_ctim) > *gone_since_ns_) return nullptr;
  return same || Fits(*file, mapping) ? file : nullptr;
}

std::shared_ptr<ElfFile> Modules::OpenFile(const Mapping& mapping) {
  if (gone_since_ns_) return OpenSince(mapping);
  const std::string folder = "/proc/" + std::to_string(memory_->pid());
  std::array<char, 64> stretch{};
  std::snprintf(stretch.data(), stretch.size(), "/map_files/%llx-%llx", static_cast<unsigned long long>(mapping.begin),
                static_cast<unsigned long long>(mapping.end));
  // Exactly the mapped file, also a deleted one or one of another mount namespace; needs a capability.
  if (const int fd = OpenForReading(folder + stretch.data()); fd >= 0) return ElfFile::OfDescriptor(fd);
  if (const int fd = OpenForReading(folder + "/exe"); fd >= 0) {
    if (IsFileOf(fd, mapping)) return ElfFile::OfDescriptor(fd);
    close(fd);
  }
  if (mapping.deleted) return nullptr;
  const int fd = OpenForReading(folder + "/root" + mapping.path);
  if (fd < 0) return nullptr;
  const bool same = IsFileOf(fd, mapping);
  std::shared_ptr<ElfFile> file = ElfFile::OfDescriptor(fd);
  if (same || !file) return file;
  // An overlay shows other device numbers than it maps: then the build id has to tell whether it was replaced.
  const std::size_t module = module_of_[static_cast<std::size_t>(&mapping - maps_.all().data())];
  const std::uint64_t begin = modules_[module].begin;
  const auto image = ElfFile::OfMemory(memory_, begin, modules_[module].end - begin);
  return image && image->build_id() == file->build_id() ? file : nullptr;
}

}  // namespace ncclwatch::stacks
