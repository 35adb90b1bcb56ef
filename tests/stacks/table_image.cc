#include "tests/stacks/table_image.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "analyzer/stacks/unwind/processor.h"

namespace ncclwatch::stacks::testing {
namespace {

using Image = std::vector<std::uint8_t>;

class OfImage : public Bytes {
 public:
  explicit OfImage(Image image) : image_(std::move(image)) {}
  std::size_t ReadAt(std::uint64_t offset, void* to, std::size_t bytes) override {
    if (offset >= image_.size()) return 0;
    bytes = std::min<std::size_t>(bytes, image_.size() - offset);
    std::memcpy(to, image_.data() + offset, bytes);
    return bytes;
  }

 private:
  Image image_;
};

template <typename T>
void Put(Image* image, const T& value) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&value);
  image->insert(image->end(), bytes, bytes + sizeof(value));
}

// To an address, from where it stands itself.
void PutDistance(Image* image, std::uint64_t to) { Put(image, static_cast<std::int32_t>(to - image->size())); }

// An entry's length is known when it ends.
template <typename Fill>
void PutEntry(Image* image, Fill fill) {
  const std::size_t begin = image->size();
  Put(image, std::uint32_t{0});
  fill();
  const auto length = static_cast<std::uint32_t>(image->size() - begin - sizeof(std::uint32_t));
  std::memcpy(image->data() + begin, &length, sizeof(length));
}

}  // namespace

std::shared_ptr<ElfFile> FileOf(std::vector<std::uint8_t> bytes) {
  return ElfFile::OfBytes(std::make_unique<OfImage>(std::move(bytes)));
}

std::vector<std::uint8_t> TableBytes(std::span<const std::uint8_t> common, std::span<const std::uint8_t> own,
                                     const char* letters) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  header.e_phoff = sizeof(header);
  Image image;
  Put(&image, header);
  Elf64_Phdr loaded{}, table{};
  table.p_type = PT_GNU_EH_FRAME;
  table.p_offset = table.p_vaddr = sizeof(header) + 2 * sizeof(Elf64_Phdr);
  table.p_filesz = table.p_memsz = 20;
  loaded.p_type = PT_LOAD;
  loaded.p_flags = PF_R | PF_X;
  loaded.p_filesz = loaded.p_memsz = table.p_offset + 256 + common.size() + own.size();
  Put(&image, loaded);
  Put(&image, table);

  const std::uint64_t frames = table.p_offset + table.p_filesz;
  std::uint64_t description = 0;
  Image entries(frames);  // their places are what distances are made of
  PutEntry(&entries, [&] {
    Put(&entries, std::uint32_t{0});
    Put(&entries, std::uint8_t{1});
    for (const char* letter = letters; *letter; ++letter) Put(&entries, *letter);
    Put(&entries, std::uint8_t{0});
    Put(&entries, std::uint8_t{1});     // code factor
    Put(&entries, std::uint8_t{0x78});  // data factor: -8
    Put(&entries, static_cast<std::uint8_t>(processor::kReturnColumn));
    Put(&entries, std::uint8_t{1});
    Put(&entries, std::uint8_t{0x1b});  // addresses are distances of 4 bytes
    entries.insert(entries.end(), common.begin(), common.end());
  });
  description = entries.size();
  PutEntry(&entries, [&] {
    Put(&entries, static_cast<std::uint32_t>(entries.size() - frames));
    PutDistance(&entries, kFunction);
    Put(&entries, static_cast<std::uint32_t>(kFunctionBytes));
    Put(&entries, std::uint8_t{0});
    entries.insert(entries.end(), own.begin(), own.end());
  });

  for (const std::uint8_t encoding : {0x01, 0x1b, 0x03, 0x3b}) Put(&image, encoding);
  PutDistance(&image, frames);
  Put(&image, std::uint32_t{1});
  Put(&image, static_cast<std::int32_t>(kFunction - table.p_vaddr));
  Put(&image, static_cast<std::int32_t>(description - table.p_vaddr));
  image.insert(image.end(), entries.begin() + static_cast<std::ptrdiff_t>(frames), entries.end());
  image.resize(loaded.p_filesz);
  return image;
}

}  // namespace ncclwatch::stacks::testing
