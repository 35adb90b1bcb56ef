// Call sites of the running process are named as addr2line takes them.
#include "watchdog/watch/process/call_sites.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace ncclwatch::watch {
namespace {

// A box in memory: header, then a ring of 256 records, then strings.
class Memory {
 public:
  Memory() : bytes_(std::size_t{3} * format::kPage + 256 * sizeof(format::Record)) {
    auto& header = *own();
    header.ring = {format::kPage, 256 * sizeof(format::Record), 256, sizeof(format::Record)};
    header.strings = {format::kPage + header.ring.bytes, format::kPage, format::kPage, 1};
    header.strings_used = 1;
  }
  format::Header* own() { return reinterpret_cast<format::Header*>(bytes_.data()); }
  void Call(const void* site) {
    const std::uint64_t slot = own()->head++;
    auto* ring = reinterpret_cast<format::Record*>(bytes_.data() + own()->ring.offset);
    ring[slot % 256].site = reinterpret_cast<std::uint64_t>(site);
    ring[slot % 256].commit = slot + 1;
  }
  std::string Name(std::uint32_t index) {
    const std::uint32_t at = own()->call_sites[index].name;
    return at ? bytes_.data() + own()->strings.offset + at : "";
  }

 private:
  std::vector<char> bytes_;
};

TEST(CallSites, NamesTheModuleAndTheAddressWithinIt) {
  Memory memory;
  const void* site = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");  // which no sanitizer replaces
  Dl_info info{};
  ASSERT_NE(dladdr(site, &info), 0);
  memory.Call(static_cast<const char*>(site) + 1);
  CallSites sites(memory.own());
  sites.Update();
  const std::string name = memory.Name(0);
  char expected[32];
  std::snprintf(expected, sizeof expected, "+0x%zx",
                static_cast<std::size_t>(static_cast<const char*>(site) - static_cast<const char*>(info.dli_fbase)));
  EXPECT_NE(name.find("libc"), std::string::npos) << name;
  EXPECT_EQ(name.substr(name.rfind('+')), expected);
}

TEST(CallSites, EachSiteOnceAndNeverMoreThanThereIsRoomFor) {
  Memory memory;
  CallSites sites(memory.own());
  for (std::uintptr_t i = 1; i <= 200; ++i) {
    memory.Call(reinterpret_cast<const void*>(i));
    memory.Call(reinterpret_cast<const void*>(i));
    sites.Update();
  }
  EXPECT_EQ(memory.own()->call_sites[0].address, 1u);
  EXPECT_EQ(memory.own()->call_sites[1].address, 2u);
  EXPECT_EQ(memory.own()->call_sites[format::kCallSites - 1].address, format::kCallSites);
  EXPECT_EQ(memory.Name(0), "");  // in no module: stays a number
}

}  // namespace
}  // namespace ncclwatch::watch
