#include "analyzer/bundle/tar_zst.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <new>

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kMostOctal = 077777777777;  // 8 GiB: more needs the number in binary
constexpr int kLevel = 6;

struct UstarHeader {  // of ustar
  char name[100];
  char mode[8], uid[8], gid[8];
  char size[12], modified[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6], version[2];
  char user[32], group[32];
  char major[8], minor[8];
  char prefix[155];
  char reserved[12];
};
static_assert(sizeof(UstarHeader) == kBlock);

// False: it is too long.
bool PutName(const std::string& name, UstarHeader* header) {
  if (name.size() <= sizeof header->name) {
    std::memcpy(header->name, name.data(), name.size());
    return true;
  }
  const std::size_t slash = name.find('/', name.size() - sizeof header->name - 1);
  if (slash == std::string::npos || slash > sizeof header->prefix) return false;
  std::memcpy(header->prefix, name.data(), slash);
  std::memcpy(header->name, name.data() + slash + 1, name.size() - slash - 1);
  return true;
}

// Octal, or, as GNU tar and its readers have it, binary with the first bit set.
void PutSize(std::uint64_t size, UstarHeader* header) {
  if (size <= kMostOctal) {
    std::snprintf(header->size, sizeof header->size, "%011llo", static_cast<unsigned long long>(size));
    return;
  }
  header->size[0] = '\x80';
  for (std::size_t i = sizeof header->size - 1; i > 0; --i, size >>= 8) header->size[i] = static_cast<char>(size & 255);
}

void PutChecksum(UstarHeader* header) {
  std::memset(header->checksum, ' ', sizeof header->checksum);
  std::array<unsigned char, kBlock> bytes{};
  std::memcpy(bytes.data(), header, kBlock);
  unsigned sum = 0;
  for (const unsigned char byte : bytes) sum += byte;
  std::snprintf(header->checksum, sizeof header->checksum, "%06o", sum);  // and a blank, as ever
}

}  // namespace

TarZst::TarZst(Write write)
    : write_(std::move(write)), packer_(ZSTD_createCCtx(), &ZSTD_freeCCtx), out_(ZSTD_CStreamOutSize(), '\0') {
  if (!packer_) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(packer_.get(), ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(packer_.get(), ZSTD_c_checksumFlag, 1);
}

bool TarZst::Takes(const std::string& name) {
  UstarHeader header{};
  return PutName(name, &header);
}

bool TarZst::Begin(const std::string& name, std::uint64_t size, std::int64_t modified_s) {
  UstarHeader header{};
  if (!PutName(name, &header)) return false;
  std::memcpy(header.mode, "0000600", 8);
  std::memcpy(header.uid, "0000000", 8);
  std::memcpy(header.gid, "0000000", 8);
  PutSize(size, &header);
  const auto modified = static_cast<unsigned long long>(std::clamp<std::int64_t>(modified_s, 0, kMostOctal));
  std::snprintf(header.modified, sizeof header.modified, "%011llo", modified);
  header.type = '0';
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  PutChecksum(&header);
  size_ = left_ = size;
  return Pack({reinterpret_cast<const char*>(&header), sizeof header});
}

bool TarZst::Add(std::string_view bytes) {
  bytes = bytes.substr(0, left_);
  left_ -= bytes.size();
  return Pack(bytes);
}

bool TarZst::End() {
  const std::string zeroes(64 << 10, '\0');
  while (well_ && left_ > 0) Add(zeroes);
  return Pack(std::string_view(zeroes).substr(0, (kBlock - size_ % kBlock) % kBlock));
}

bool TarZst::Finish() { return Pack(std::string(2 * kBlock, '\0'), ZSTD_e_end); }

bool TarZst::Pack(std::string_view bytes, ZSTD_EndDirective end) {
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  for (bool more = true; well_ && more;) {
    ZSTD_outBuffer out{out_.data(), out_.size(), 0};
    const std::size_t left = ZSTD_compressStream2(packer_.get(), &out, &in, end);
    if (ZSTD_isError(left)) throw std::bad_alloc();  // no other error can be of a stream without settings of its own
    if (out.pos > 0) well_ = write_(std::string_view(out_).substr(0, out.pos));
    more = end == ZSTD_e_end ? left > 0 : in.pos < in.size;
  }
  return well_;
}

}  // namespace ncclwatch::analyzer
