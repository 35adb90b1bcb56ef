// write_otf2 FOLDER: an OTF2 archive as Score-P writes them, of three ranks of an MPI program that nobody ran. Instants
// are in nanoseconds; cases_archives.py knows what is true of it.
#include <otf2/otf2.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int kRanks = 3;
constexpr std::uint64_t kRealtime = 1'700'000'000'000'000'000;

OTF2_FlushType Flush(void*, OTF2_FileType, OTF2_LocationRef, void*, bool) { return OTF2_FLUSH; }
OTF2_TimeStamp FlushTime(void*, OTF2_FileType, OTF2_LocationRef) { return 0; }
constexpr OTF2_FlushCallbacks kFlush = {Flush, FlushTime};

const std::vector<std::string> kRegions = {"main",      "solve",       "MPI_Init",     "MPI_Comm_rank", "MPI_Send",
                                           "MPI_Recv",  "MPI_Isend",   "MPI_Irecv",    "MPI_Wait",      "MPI_Test",
                                           "MPI_Bcast", "MPI_Barrier", "MPI_Sendrecv", "MPI_Finalize",  "MPI_Waitall"};

OTF2_RegionRef RegionOf(const std::string& name) {
  for (std::size_t i = 0; i < kRegions.size(); ++i)
    if (kRegions[i] == name) return static_cast<OTF2_RegionRef>(i);
  return OTF2_UNDEFINED_REGION;
}

class Rank {
 public:
  explicit Rank(OTF2_EvtWriter* to) : to_(to) {}
  void Enter(std::uint64_t at, const std::string& region) { OTF2_EvtWriter_Enter(to_, nullptr, at, RegionOf(region)); }
  void Leave(std::uint64_t at, const std::string& region) { OTF2_EvtWriter_Leave(to_, nullptr, at, RegionOf(region)); }
  void Call(std::uint64_t from, std::uint64_t to, const std::string& region) {
    Enter(from, region);
    Leave(to, region);
  }
  void Send(std::uint64_t from, std::uint64_t to, std::uint32_t peer, std::uint32_t tag, std::uint64_t bytes) {
    Enter(from, "MPI_Send");
    OTF2_EvtWriter_MpiSend(to_, nullptr, from + 1, peer, 0, tag, bytes);
    Leave(to, "MPI_Send");
  }
  void Recv(std::uint64_t from, std::uint64_t to, std::uint32_t peer, std::uint32_t tag, std::uint64_t bytes) {
    Enter(from, "MPI_Recv");
    OTF2_EvtWriter_MpiRecv(to_, nullptr, to - 1, peer, 0, tag, bytes);
    Leave(to, "MPI_Recv");
  }
  void Isend(std::uint64_t from, std::uint64_t to, std::uint32_t peer, std::uint64_t bytes, std::uint64_t request) {
    Enter(from, "MPI_Isend");
    OTF2_EvtWriter_MpiIsend(to_, nullptr, from + 1, peer, 0, 3, bytes, request);
    Leave(to, "MPI_Isend");
  }
  void Irecv(std::uint64_t from, std::uint64_t to, std::uint64_t request) {
    Enter(from, "MPI_Irecv");
    OTF2_EvtWriter_MpiIrecvRequest(to_, nullptr, from + 1, request);
    Leave(to, "MPI_Irecv");
  }
  void SendDone(std::uint64_t at, std::uint64_t request) { OTF2_EvtWriter_MpiIsendComplete(to_, nullptr, at, request); }
  void RecvDone(std::uint64_t at, std::uint32_t peer, std::uint64_t bytes, std::uint64_t request) {
    OTF2_EvtWriter_MpiIrecv(to_, nullptr, at, peer, 0, 3, bytes, request);
  }
  void Collective(std::uint64_t from, std::uint64_t to, const std::string& region, OTF2_CollectiveOp op,
                  OTF2_CommRef comm, std::uint32_t root, std::uint64_t sent, std::uint64_t received) {
    Enter(from, region);
    OTF2_EvtWriter_MpiCollectiveBegin(to_, nullptr, from + 1);
    OTF2_EvtWriter_MpiCollectiveEnd(to_, nullptr, to - 1, op, comm, root, sent, received);
    Leave(to, region);
  }
  void Exchange(std::uint64_t from, std::uint64_t to, std::uint32_t next, std::uint32_t before) {
    Enter(from, "MPI_Sendrecv");
    OTF2_EvtWriter_MpiSend(to_, nullptr, from + 1, next, 0, 9, 40);
    OTF2_EvtWriter_MpiRecv(to_, nullptr, to - 1, before, 0, 9, 40);
    Leave(to, "MPI_Sendrecv");
  }

 private:
  OTF2_EvtWriter* to_;
};

void Play(int rank, Rank* to) {
  to->Enter(100, "main");
  to->Call(200, 900, "MPI_Init");
  to->Call(901, 902, "MPI_Comm_rank");
  if (rank == 0) {
    to->Call(1000, 5000, "solve");
    to->Send(5000, 5200, 1, 7, 64);  // rank 1 waits from 2000 on
    to->Isend(6000, 6100, 2, 128, 1);
    to->Enter(6200, "MPI_Wait");
    to->SendDone(6250, 1);
    to->Leave(6300, "MPI_Wait");
    to->Send(6400, 6500, 1, 1, 8);  // received after the next one
    to->Send(6500, 6600, 1, 2, 16);
  } else if (rank == 1) {
    to->Recv(2000, 5300, 0, 7, 64);
    to->Recv(6450, 6700, 0, 2, 16);
    to->Recv(6700, 6800, 0, 1, 8);
  } else {
    to->Irecv(1000, 1100, 5);
    to->Call(1200, 1250, "MPI_Test");
    to->Call(1300, 1350, "MPI_Test");
    to->Call(1400, 4000, "solve");
    to->Enter(4000, "MPI_Wait");
    to->RecvDone(6950, 0, 128, 5);  // sent at 6000
    to->Leave(7000, "MPI_Wait");
  }
  to->Exchange(8000, 8100, static_cast<std::uint32_t>((rank + 1) % kRanks),
               static_cast<std::uint32_t>((rank + kRanks - 1) % kRanks));
  to->Collective(9000 + 10 * static_cast<std::uint64_t>(rank), 9100, "MPI_Bcast", OTF2_COLLECTIVE_OP_BCAST, 0, 2,
                 rank == 2 ? 96 : 0, 32);
  if (rank != 1)
    to->Collective(9200, 9300, "MPI_Barrier", OTF2_COLLECTIVE_OP_BARRIER, 1, OTF2_COLLECTIVE_ROOT_NONE, 0, 0);
  to->Call(9900, 9950, "MPI_Finalize");
  to->Leave(9990, "main");
}

class Definitions {
 public:
  explicit Definitions(OTF2_GlobalDefWriter* to) : to_(to) {}
  OTF2_StringRef Text(const std::string& text) {
    const auto [found, fresh] = texts_.try_emplace(text, static_cast<OTF2_StringRef>(texts_.size()));
    if (fresh) OTF2_GlobalDefWriter_WriteString(to_, found->second, text.c_str());
    return found->second;
  }
  void Write() {
    OTF2_GlobalDefWriter_WriteClockProperties(to_, 1'000'000'000, 0, 10'000, kRealtime);
    const OTF2_StringRef none = Text("");
    OTF2_GlobalDefWriter_WriteSystemTreeNode(to_, 0, Text("machine"), Text("machine"), OTF2_UNDEFINED_SYSTEM_TREE_NODE);
    for (std::size_t i = 0; i < kRegions.size(); ++i)
      OTF2_GlobalDefWriter_WriteRegion(to_, static_cast<OTF2_RegionRef>(i), Text(kRegions[i]), Text(kRegions[i]), none,
                                       OTF2_REGION_ROLE_FUNCTION, i < 2 ? OTF2_PARADIGM_USER : OTF2_PARADIGM_MPI,
                                       OTF2_REGION_FLAG_NONE, none, 0, 0);
    for (int rank = 0; rank < kRanks; ++rank) WriteRank(static_cast<std::uint64_t>(rank));
    const std::uint64_t all[] = {0, 1, 2}, two[] = {0, 2};
    OTF2_GlobalDefWriter_WriteGroup(to_, 0, none, OTF2_GROUP_TYPE_COMM_LOCATIONS, OTF2_PARADIGM_MPI,
                                    OTF2_GROUP_FLAG_NONE, kRanks, all);
    OTF2_GlobalDefWriter_WriteGroup(to_, 1, none, OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE,
                                    kRanks, all);
    OTF2_GlobalDefWriter_WriteGroup(to_, 2, none, OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE,
                                    2, two);
    OTF2_GlobalDefWriter_WriteComm(to_, 0, Text("MPI_COMM_WORLD"), 1, OTF2_UNDEFINED_COMM, OTF2_COMM_FLAG_NONE);
    OTF2_GlobalDefWriter_WriteComm(to_, 1, Text("rows"), 2, 0, OTF2_COMM_FLAG_NONE);
  }

 private:
  void WriteRank(std::uint64_t rank) {
    const std::string host = "host" + std::to_string(rank);
    const auto node = static_cast<OTF2_SystemTreeNodeRef>(rank + 1);
    OTF2_GlobalDefWriter_WriteSystemTreeNode(to_, node, Text(host), Text("node"), 0);
    const auto process = static_cast<OTF2_LocationGroupRef>(rank);
    OTF2_GlobalDefWriter_WriteLocationGroup(to_, process, Text("MPI Rank " + std::to_string(rank)),
                                            OTF2_LOCATION_GROUP_TYPE_PROCESS, node, OTF2_UNDEFINED_LOCATION_GROUP);
    OTF2_GlobalDefWriter_WriteLocation(to_, rank, Text("Master thread"), OTF2_LOCATION_TYPE_CPU_THREAD, 100, process);
  }

  OTF2_GlobalDefWriter* to_;
  std::map<std::string, OTF2_StringRef> texts_;
};

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "write_otf2 FOLDER\n");
    return 2;
  }
  OTF2_Archive* const archive =
      OTF2_Archive_Open(words[1], "traces", OTF2_FILEMODE_WRITE, OTF2_CHUNK_SIZE_MIN,
                        OTF2_CHUNK_SIZE_DEFINITIONS_DEFAULT, OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
  if (!archive) return 1;
  OTF2_Archive_SetFlushCallbacks(archive, &kFlush, nullptr);
  OTF2_Archive_SetSerialCollectiveCallbacks(archive);
  OTF2_Archive_OpenEvtFiles(archive);
  for (int rank = 0; rank < kRanks; ++rank) {
    OTF2_EvtWriter* const writer = OTF2_Archive_GetEvtWriter(archive, static_cast<OTF2_LocationRef>(rank));
    Rank to(writer);
    Play(rank, &to);
    OTF2_Archive_CloseEvtWriter(archive, writer);
  }
  OTF2_Archive_CloseEvtFiles(archive);
  OTF2_Archive_OpenDefFiles(archive);
  for (int rank = 0; rank < kRanks; ++rank)
    OTF2_Archive_CloseDefWriter(archive, OTF2_Archive_GetDefWriter(archive, static_cast<OTF2_LocationRef>(rank)));
  OTF2_Archive_CloseDefFiles(archive);
  Definitions(OTF2_Archive_GetGlobalDefWriter(archive)).Write();
  return OTF2_Archive_Close(archive) == OTF2_SUCCESS ? 0 : 1;
}
