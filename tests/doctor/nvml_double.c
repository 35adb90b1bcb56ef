// Stands for NVIDIA's libnvidia-ml.so.1: as many GPUs as DOUBLE_GPUS says, in the state that DOUBLE_STATE names.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void* Device;
typedef struct {
  unsigned long long total, free, used;
} Memory;
typedef struct {
  char legacy[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
} PciInfo;

static int is(const char* state) {
  const char* const now = getenv("DOUBLE_STATE");
  return now && strcmp(now, state) == 0;
}
static unsigned number(Device device) { return (unsigned)((char*)device - (char*)0) - 1; }

int nvmlInit_v2(void) { return is("no-answer") ? 9 : 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) { return snprintf(text, size, "560.35.03") < 0; }
int nvmlSystemGetCudaDriverVersion_v2(int* version) { return *version = 12060, 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  return *count = (unsigned)atoi(getenv("DOUBLE_GPUS") ? getenv("DOUBLE_GPUS") : "2"), 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, Device* device) { return *device = (char*)0 + i + 1, 0; }
int nvmlDeviceGetName(Device device, char* text, unsigned size) {
  return (void)device, snprintf(text, size, "Double H100") < 0;
}
int nvmlDeviceGetUUID(Device device, char* text, unsigned size) {
  return snprintf(text, size, "GPU-%u", number(device)) < 0;
}
int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* pci) {
  return snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", number(device) + 1) < 0;
}
int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  memory->total = 80ull << 30;
  memory->free = memory->total - ((is("memory") && number(device) == 1 ? 30ull : 1ull) << 30);
  memory->used = memory->total - memory->free;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(Device device, int type, int counter, unsigned long long* count) {
  return (void)counter, *count = type == 1 && is("ecc") && number(device) == 1 ? 3 : 0, 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* reasons) {
  return *reasons = is("heat") && number(device) == 0 ? 0x40 : 0x1, 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(Device device, unsigned* width) {
  return *width = is("width") && number(device) == 1 ? 4 : 16, 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(Device device, unsigned* width) { return (void)device, *width = 16, 0; }
int nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned* active) {
  return (void)link, *active = !(is("nvlink") && number(device) == 0), 0;
}
