#include "analyzer/stacks/base/elf_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace ncclwatch::stacks {
namespace {

// More than any real file has; what claims more is damaged and must not size an allocation.
constexpr std::size_t kMostSegments = 1024;
constexpr std::size_t kMostSections = 65536;
constexpr std::uint64_t kMostSymbols = 1u << 28;
constexpr std::size_t kMostNotes = 1u << 20;
constexpr std::size_t kMostDynamic = 4096;

class OpenBytes : public Bytes {
 public:
  explicit OpenBytes(int fd) : fd_(fd) {}
  ~OpenBytes() override { close(fd_); }
  OpenBytes(const OpenBytes&) = delete;
  OpenBytes& operator=(const OpenBytes&) = delete;
  std::size_t ReadAt(std::uint64_t offset, void* to, std::size_t bytes) override {
    std::size_t got = 0;
    while (got < bytes) {
      const ssize_t n = pread(fd_, static_cast<char*>(to) + got, bytes - got, static_cast<off_t>(offset + got));
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got;
  }

 private:
  int fd_;
};

class MappedImage : public Bytes {
 public:
  MappedImage(Memory* memory, std::uint64_t base, std::uint64_t bytes) : memory_(memory), base_(base), size_(bytes) {}
  std::size_t ReadAt(std::uint64_t offset, void* to, std::size_t bytes) override {
    if (offset >= size_) return 0;
    return memory_->ReadNow(base_ + offset, to, std::min<std::uint64_t>(bytes, size_ - offset));
  }

 private:
  Memory* memory_;
  std::uint64_t base_, size_;
};

bool IsOurs(const Elf64_Ehdr& header) {
  constexpr unsigned char kOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_ident[EI_DATA] == kOrder && header.e_phentsize == sizeof(Elf64_Phdr) &&
         header.e_phnum <= kMostSegments;
}

}  // namespace

std::shared_ptr<ElfFile> ElfFile::OfBytes(std::unique_ptr<Bytes> bytes) {
  std::shared_ptr<ElfFile> file(new ElfFile);
  file->bytes_ = std::move(bytes);
  if (!file->Parse()) return nullptr;
  file->ParseSections();
  return file;
}

std::shared_ptr<ElfFile> ElfFile::OfDescriptor(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd);
    return nullptr;
  }
  return OfBytes(std::make_unique<OpenBytes>(fd));
}

std::shared_ptr<ElfFile> ElfFile::OfMemory(Memory* memory, std::uint64_t base, std::uint64_t bytes) {
  std::shared_ptr<ElfFile> file(new ElfFile);
  file->bytes_ = std::make_unique<MappedImage>(memory, base, bytes);
  if (!file->Parse()) return nullptr;
  const std::uint64_t first = file->FirstAddress();
  const auto loaded = std::count_if(file->segments_.begin(), file->segments_.end(),
                                    [](const Elf64_Phdr& segment) { return segment.p_type == PT_LOAD; });
  if (loaded == 0) return nullptr;
  const bool whole = loaded == 1 && file->header_.e_shoff + kPageBytes / 4 < bytes;  // the vdso has its sections too
  // In memory a place is found by its address, not by its offset in the file.
  for (Elf64_Phdr& segment : file->segments_) segment.p_offset = segment.p_vaddr - first;
  if (whole) file->ParseSections();
  for (const Elf64_Phdr& segment : file->segments_)
    if (segment.p_type == PT_DYNAMIC && file->tables_.empty())
      file->ParseDynamic(base - first, segment.p_offset, segment.p_filesz);
  return file;
}

bool ElfFile::ReadAt(std::uint64_t offset, void* to, std::size_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  while (bytes > 0) {
    auto [entry, fresh] = pages_.try_emplace(offset - offset % kPageBytes);
    if (fresh) {
      entry->second = std::make_unique<Cached>();
      entry->second->bytes = bytes_->ReadAt(entry->first, entry->second->data.data(), kPageBytes);
    }
    const std::size_t at = offset % kPageBytes;
    const std::size_t part = std::min<std::size_t>(bytes, kPageBytes - at);
    if (at + part > entry->second->bytes) return false;
    std::memcpy(out, entry->second->data.data() + at, part);
    offset += part;
    out += part;
    bytes -= part;
  }
  return true;
}

bool ElfFile::Parse() {
  if (!ReadAt(0, &header_, sizeof(header_)) || !IsOurs(header_)) return false;
  segments_.resize(header_.e_phnum);
  if (header_.e_phnum > 0 && !ReadAt(header_.e_phoff, segments_.data(), segments_.size() * sizeof(Elf64_Phdr)))
    return false;
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type == PT_NOTE && build_id_.empty()) ParseNotes(segment.p_offset, segment.p_filesz);
  }
  return true;
}

void ElfFile::ParseNotes(std::uint64_t offset, std::uint64_t bytes) {
  constexpr std::uint32_t kBuildId = 3;  // NT_GNU_BUILD_ID
  constexpr std::size_t kMostId = 64;
  bytes = std::min<std::uint64_t>(bytes, kMostNotes);
  const auto padded = [](std::uint32_t size) { return (std::uint64_t{size} + 3) & ~std::uint64_t{3}; };
  for (std::uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
    Elf64_Nhdr note{};
    if (!ReadAt(offset + at, &note, sizeof(note))) return;
    at += sizeof(note);
    std::array<char, 4> owner{};
    if (note.n_type == kBuildId && note.n_namesz == owner.size() && note.n_descsz <= kMostId &&
        ReadAt(offset + at, owner.data(), owner.size()) && std::memcmp(owner.data(), "GNU", owner.size()) == 0) {
      build_id_.resize(note.n_descsz);
      if (!ReadAt(offset + at + owner.size(), build_id_.data(), build_id_.size())) build_id_.clear();
      return;
    }
    at += padded(note.n_namesz) + padded(note.n_descsz);
  }
}

void ElfFile::ParseSections() {
  if (header_.e_shentsize != sizeof(Elf64_Shdr) || header_.e_shoff == 0) return;
  std::size_t count = header_.e_shnum;
  Elf64_Shdr first{};
  if (count == 0 && ReadAt(header_.e_shoff, &first, sizeof(first))) count = first.sh_size;
  if (count > kMostSections) return;
  sections_.resize(count);
  if (!ReadAt(header_.e_shoff, sections_.data(), count * sizeof(Elf64_Shdr))) {
    sections_.clear();
    return;
  }
  // What .dynsym has .symtab has too.
  for (const std::uint32_t type : {SHT_SYMTAB, SHT_DYNSYM}) {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != type || section.sh_entsize != sizeof(Elf64_Sym) || section.sh_link >= count) continue;
      const Elf64_Shdr& names = sections_[section.sh_link];
      tables_.push_back({section.sh_offset, std::min(section.sh_size / sizeof(Elf64_Sym), kMostSymbols),
                         names.sh_offset, names.sh_size});
      full_symbols_ = type == SHT_SYMTAB;
      return;
    }
  }
}

// Without section headers, in memory: the loader has put absolute addresses into some of the entries.
void ElfFile::ParseDynamic(std::uint64_t bias, std::uint64_t offset, std::uint64_t bytes) {
  std::uint64_t symbols = 0, names = 0, names_bytes = 0;
  const std::size_t count = std::min<std::size_t>(bytes / sizeof(Elf64_Dyn), kMostDynamic);
  for (std::size_t i = 0; i < count; ++i) {
    Elf64_Dyn entry{};
    if (!ReadAt(offset + i * sizeof(entry), &entry, sizeof(entry)) || entry.d_tag == DT_NULL) break;
    const std::uint64_t value = entry.d_un.d_ptr;
    const std::uint64_t address = value >= bias ? value - bias : value;
    if (entry.d_tag == DT_SYMTAB) symbols = address;
    if (entry.d_tag == DT_STRTAB) names = address;
    if (entry.d_tag == DT_STRSZ) names_bytes = entry.d_un.d_val;
  }
  const auto symbols_at = OffsetOf(symbols), names_at = OffsetOf(names);
  // No entry tells how many symbols there are; linkers put the names right behind them.
  if (!symbols_at || !names_at || *names_at <= *symbols_at) return;
  tables_.push_back(
      {*symbols_at, std::min((*names_at - *symbols_at) / sizeof(Elf64_Sym), kMostSymbols), *names_at, names_bytes});
}

const Elf64_Phdr* ElfFile::SegmentOf(std::uint64_t address) const {
  for (const Elf64_Phdr& segment : segments_)
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
      return &segment;
  return nullptr;
}

std::optional<std::uint64_t> ElfFile::OffsetOf(std::uint64_t address) const {
  const Elf64_Phdr* const segment = SegmentOf(address);
  if (!segment) return std::nullopt;
  return address - segment->p_vaddr + segment->p_offset;
}

bool ElfFile::IsConstant(std::uint64_t address) const {
  const Elf64_Phdr* const segment = SegmentOf(address);
  return segment && (segment->p_flags & PF_W) == 0;
}

std::uint64_t ElfFile::FirstAddress() const {
  std::uint64_t first = UINT64_MAX;
  for (const Elf64_Phdr& segment : segments_)
    if (segment.p_type == PT_LOAD) first = std::min(first, segment.p_vaddr - segment.p_vaddr % kPageBytes);
  return first;
}

std::uint64_t ElfFile::EndAddress() const {
  std::uint64_t end = 0;
  for (const Elf64_Phdr& segment : segments_)
    if (segment.p_type == PT_LOAD) end = std::max(end, segment.p_vaddr + segment.p_memsz);
  return end;
}

std::optional<std::uint64_t> ElfFile::AddressOfOffset(std::uint64_t offset, bool executable) const {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || ((segment.p_flags & PF_X) != 0) != executable) continue;
    // Segments are mapped by whole pages: a mapping begins at or before what the segment has.
    const std::uint64_t align = std::max<std::uint64_t>(segment.p_align, kPageBytes);
    const std::uint64_t begin = segment.p_offset - segment.p_offset % align;
    if (offset >= begin && offset < segment.p_offset + segment.p_filesz)
      return offset - segment.p_offset + segment.p_vaddr;
  }
  return std::nullopt;
}

bool ElfFile::Read(std::uint64_t address, void* to, std::size_t bytes) {
  const auto offset = OffsetOf(address);
  return offset && ReadAt(*offset, to, bytes);
}

std::optional<UnwindTable> ElfFile::FindUnwindTable() {
  const auto header = std::find_if(segments_.begin(), segments_.end(),
                                   [](const Elf64_Phdr& segment) { return segment.p_type == PT_GNU_EH_FRAME; });
  struct {
    std::uint8_t version, frames_encoding, count_encoding, rows_encoding;
    std::uint32_t frames, count;
  } head{};
  if (header == segments_.end() || header->p_filesz < sizeof(head) || !ReadAt(header->p_offset, &head, sizeof(head)) ||
      head.version != 1)
    return std::nullopt;
  // What every linker writes: numbers of 4 bytes, the rows' relative to the header.
  constexpr std::uint8_t kFourBytes = 0x03, kFormat = 0x07, kRows = 0x3b;
  if ((head.frames_encoding & kFormat) != kFourBytes || head.count_encoding != kFourBytes ||
      head.rows_encoding != kRows)
    return std::nullopt;
  const std::uint64_t room = (header->p_filesz - sizeof(head)) / 8;
  return UnwindTable{header->p_vaddr, header->p_vaddr + sizeof(head), std::min<std::uint64_t>(head.count, room)};
}

std::string ElfFile::NameAt(const Table& table, std::uint64_t at) {
  constexpr std::size_t kMostName = 4096;
  std::string name;
  while (at < table.text_bytes && name.size() < kMostName) {
    std::array<char, 64> piece;
    const std::uint64_t offset = table.text_offset + at;
    std::size_t bytes = std::min<std::uint64_t>(piece.size(), table.text_bytes - at);
    bytes = std::min<std::size_t>(bytes, kPageBytes - offset % kPageBytes);
    if (!ReadAt(offset, piece.data(), bytes)) break;
    const auto* const end = static_cast<const char*>(std::memchr(piece.data(), 0, bytes));
    name.append(piece.data(), end ? static_cast<std::size_t>(end - piece.data()) : bytes);
    if (end) break;
    at += bytes;
  }
  return name;
}

}  // namespace ncclwatch::stacks
