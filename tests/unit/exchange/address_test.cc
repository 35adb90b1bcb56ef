#include "watchdog/exchange/rendezvous/address.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "watchdog/exchange/net/endpoint.h"
#include "watchdog/exchange/net/resolver.h"
#include "watchdog/exchange/rendezvous/seen_unique_ids.h"
#include "watchdog/exchange/rendezvous/token.h"
#include "watchdog/exchange/rendezvous/unique_id.h"
#include "watchdog/rundir/hydra.h"

namespace ncclwatch::exchange {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

rundir::Lookup In(const Variables& variables) {
  return [&variables](std::string_view name) -> std::optional<std::string_view> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string_view>(found->second);
  };
}

const Variables kTorchrun = {{"TORCHELASTIC_RUN_ID", "none"},
                             {"RANK", "3"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "node-1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RESTART_COUNT", "0"}};

TEST(Address, FromTheVariable) {
  std::string why;
  const auto tcp = ParseAddress("tcp://[2001:db8::1]:7000", &why);
  ASSERT_TRUE(tcp);
  EXPECT_EQ(tcp->kind, Address::Kind::kTcp);
  EXPECT_EQ(tcp->ToText(), "tcp://[2001:db8::1]:7000");
  EXPECT_TRUE(tcp->more_hosts.empty() && tcp->more_ports.empty());
  const auto redis = ParseAddress("redis://:pw@store/2", &why);
  ASSERT_TRUE(redis);
  EXPECT_EQ(redis->ToText(), "redis://store:6379/2");
  EXPECT_FALSE(ParseAddress("redis://:pw@store:x", &why));
  EXPECT_EQ(why.find("pw"), std::string::npos) << why;
}

TEST(Address, OfTorchrunIsTheMastersAndTheSameOnEveryRank) {
  Variables other = kTorchrun;
  other["RANK"] = "7";
  other["LOCAL_RANK"] = "0";
  other["TORCHELASTIC_RESTART_COUNT"] = "1";  // agents count for themselves
  const Address a = AddressFromLauncher(In(kTorchrun)), b = AddressFromLauncher(In(other));
  EXPECT_EQ(a.kind, Address::Kind::kTcp);
  EXPECT_EQ(a.host, "node-1");
  EXPECT_EQ(a.ToText(), b.ToText());
  EXPECT_EQ(a.more_ports, b.more_ports);
  EXPECT_EQ(JobIdentity(In(kTorchrun)), JobIdentity(In(other)));
  other["MASTER_PORT"] = "29501";
  EXPECT_NE(JobIdentity(In(kTorchrun)), JobIdentity(In(other)));
  std::set<std::uint16_t> ports(a.more_ports.begin(), a.more_ports.end());
  ports.insert(a.port);
  EXPECT_EQ(ports.size(), kPorts);
  for (const std::uint16_t port : ports) {
    EXPECT_GE(port, 20000);
    EXPECT_LT(port, 30000);
  }
}

TEST(Address, NeverTheMastersOwnPort) {
  Variables job = kTorchrun;
  for (int port = 20000; port < 30000; port += 7) {
    job["MASTER_PORT"] = std::to_string(port);
    const Address address = AddressFromLauncher(In(job));
    ASSERT_NE(address.port, port);
    ASSERT_EQ(address.more_ports.size(), kPorts - 1);
    for (const std::uint16_t more : address.more_ports) ASSERT_NE(more, port);
  }
}

TEST(Address, OfSlurmIsTheStepsFirstNode) {
  const Variables step = {{"SLURM_STEP_ID", "0"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_PROCID", "5"},
                          {"SLURM_STEP_NUM_TASKS", "8"},
                          {"SLURM_JOB_NODELIST", "login1"},
                          {"SLURM_STEP_NODELIST", "gpu[003-010,12]"},
                          {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"}};
  const Address address = AddressFromLauncher(In(step));
  EXPECT_EQ(address.host, "gpu003");
  EXPECT_EQ(address.more_hosts, std::vector<std::string>{"10.0.0.9"});
  EXPECT_EQ(address.source, "Slurm");
}

TEST(Address, OfOpenMpiIsWhereMpirunIs) {
  Variables rank = {{"OMPI_COMM_WORLD_RANK", "1"},
                    {"OMPI_COMM_WORLD_SIZE", "4"},
                    {"OMPI_MCA_orte_hnp_uri", "2983395328.0;tcp://10.1.0.4,172.17.0.1:36217;tcp6://[fe80::1]:4"},
                    {"PMIX_NAMESPACE", "2983395329"}};
  Address address = AddressFromLauncher(In(rank));
  EXPECT_EQ(address.host, "10.1.0.4");
  EXPECT_EQ(address.more_hosts, std::vector<std::string>{"172.17.0.1"});
  rank.erase("OMPI_MCA_orte_hnp_uri");
  rank["PMIX_NAMESPACE"] = "prterun-gpu-node-7-41337@1";
  address = AddressFromLauncher(In(rank));
  EXPECT_EQ(address.host, "gpu-node-7");
}

TEST(Address, OfMpichIsWhereMpiexecIs) {
  using namespace std::string_literals;
  const std::string proxy = "/usr/bin/hydra_pmi_proxy\0--control-port\0login3:40209\0--rmk\0user\0--proxy-id\0001"s;
  const std::string port = rundir::HydraPortIn(proxy);
  const Variables rank = {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {rundir::kHydraPort, port}};
  const Address address = AddressFromLauncher(In(rank));
  EXPECT_EQ(address.host, "login3");
  EXPECT_EQ(address.source, "Hydra");
  EXPECT_EQ(rundir::HydraPortIn("/usr/bin/vim\0--control-port\0a:1"s), "");
  EXPECT_EQ(rundir::HydraPortIn("hydra_pmi_proxy\0--control-port"s), "");
  EXPECT_EQ(rundir::HydraPortIn(""), "");
}

TEST(Address, NoneWhereTheLauncherTellsNothing) {
  EXPECT_EQ(AddressFromLauncher(In({})).kind, Address::Kind::kNone);
  EXPECT_EQ(AddressFromLauncher(In({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})).kind, Address::Kind::kNone);
}

TEST(Address, FirstNodeOfSlurmsLists) {
  for (const auto& [list, first] :
       std::vector<std::pair<const char*, const char*>>{{"gpu3", "gpu3"},
                                                        {"gpu3,gpu4", "gpu3"},
                                                        {"login1,gpu[1-2]", "login1"},
                                                        {"gpu[003-010,12],login1", "gpu003"},
                                                        {"gpu[7,9]", "gpu7"},
                                                        {"rack[1-2]node[3-4]", "rack1node3"},
                                                        {"gpu[1-2]-ib,x", "gpu1-ib"},
                                                        {"a[1-2],b[3-4]", "a1"},
                                                        {"gpu[", ""},
                                                        {"gpu[x-2]", ""},
                                                        {"gpu[]", ""},
                                                        {"", ""}})
    EXPECT_EQ(FirstOfNodeList(list), first) << list;
}

TEST(Token, EachSourceMakesItsOwn) {
  std::array<std::uint8_t, 128> id{};
  std::set<std::array<std::uint8_t, 32>> tokens;
  tokens.insert(TokenOfSecret("x").bytes);
  tokens.insert(TokenOfSecret("y").bytes);
  tokens.insert(TokenOfJob("x").bytes);
  tokens.insert(TokenOfUniqueId(id).bytes);
  id[127] = 1;
  tokens.insert(TokenOfUniqueId(id).bytes);
  EXPECT_EQ(tokens.size(), 5u);
  EXPECT_EQ(TokenOfSecret("x").bytes, TokenOfSecret("x").bytes);
}

TEST(Token, NodesAreTheirRunDirectories) {
  EXPECT_EQ(NodeName("/tmp"), NodeName("/tmp"));
  EXPECT_NE(NodeName("/tmp"), NodeName("/proc"));
  EXPECT_EQ(NodeName("/tmp").size(), 32u);
}

Tail SomeTail() {
  Tail tail;
  tail.address = {10, 0, 0, 7};
  tail.port = 23456;
  tail.secret = {1, 2, 3, 4, 5, 6};
  return tail;
}

TEST(UniqueId, TheTailComesBack) {
  std::array<std::uint8_t, 128> id{};
  id[3] = 9;
  EXPECT_FALSE(TailOf(id));
  const std::array<std::uint8_t, 128> before = id;
  ASSERT_TRUE(PutTail(SomeTail(), id));
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 96, id.begin())) << "NCCL's own part was touched";
  const auto tail = TailOf(id);
  ASSERT_TRUE(tail);
  EXPECT_EQ(tail->port, 23456);
  EXPECT_EQ(tail->secret, SomeTail().secret);
  EXPECT_EQ(AddressOf(*tail).ToText(), "tcp://10.0.0.7:23456");
  EXPECT_FALSE(PutTail(SomeTail(), id)) << "a tail that is there stays";
}

TEST(UniqueId, AnyChangeMakesItNoTail) {
  std::array<std::uint8_t, 128> id{};
  ASSERT_TRUE(PutTail(SomeTail(), id));
  for (std::size_t i = 0; i < id.size(); ++i) {
    id[i] ^= 0x10;
    EXPECT_FALSE(TailOf(id)) << i;
    id[i] ^= 0x10;
  }
  EXPECT_TRUE(TailOf(id));
}

TEST(UniqueId, VersionsThatHaveRoom) {
  for (const int version : {21003, 21505, 22304, 22809, 23007}) EXPECT_TRUE(HasTail(version, nullptr)) << version;
  for (const int version : {0, 2708, 20908, 21602, 21903, 22203}) EXPECT_FALSE(HasTail(version, nullptr)) << version;
  EXPECT_TRUE(HasTail(22809, ""));
  EXPECT_FALSE(HasTail(22809, "host:1"));
}

// Made by libnccl 2.28.9's ncclGetUniqueId (without a GPU), and in the form of 2.15 and older.
TEST(UniqueId, NcclsOwnAddressIsFound) {
  std::array<std::uint8_t, 128> id = {0x0f, 0xd8, 0xa0, 0x47, 0x8f, 0x69, 0xb9, 0x3d,
                                      0x02, 0x00, 0xa5, 0x4b, 10,   1,    2,    3};
  const auto place = PlaceOfNccl(id);
  ASSERT_TRUE(place);
  EXPECT_EQ(AddressOf(*place).ToText(), "tcp://10.1.2.3:42315");
  id = {0x02, 0x00, 0xa5, 0x4b, 10, 1, 2, 3};
  ASSERT_TRUE(PlaceOfNccl(id));
  EXPECT_EQ(AddressOf(*PlaceOfNccl(id)).ToText(), "tcp://10.1.2.3:42315");
  id = {};
  EXPECT_FALSE(PlaceOfNccl(id));
}

TEST(UniqueId, APlaceIsOfferedWhereNcclListens) {
  std::array<std::uint8_t, 128> id = {1, 2, 3, 4, 5, 6, 7, 8, 0x02, 0x00, 0xa5, 0x4b, 10, 1, 2, 3};
  ASSERT_TRUE(OfferPlace(id));
  const auto tail = TailOf(id);
  ASSERT_TRUE(tail);
  const Address address = AddressOf(*tail);
  EXPECT_EQ(address.host, "10.1.2.3");
  EXPECT_GE(address.port, 20000);
  EXPECT_LT(address.port, 30000);
  EXPECT_EQ(address.source, "ncclUniqueId");
  EXPECT_FALSE(OfferPlace(id)) << "it has one";
  std::array<std::uint8_t, 128> nowhere{};
  EXPECT_FALSE(OfferPlace(nowhere));
  std::array<std::uint8_t, 128> loopback = {1, 2, 3, 4, 5, 6, 7, 8, 0x02, 0x00, 0xa5, 0x4b, 127, 0, 0, 1};
  EXPECT_FALSE(OfferPlace(loopback)) << "no other node comes there";
  EXPECT_EQ(nowhere, (std::array<std::uint8_t, 128>{}));
}

TEST(NotedIds, TheFirstFewEachOnce) {
  EXPECT_EQ(AddressFromNotedIds().kind, Address::Kind::kNone);
  std::array<std::uint8_t, 128> plain{}, with_tail{};
  plain[0] = 1;
  with_tail[0] = 2;
  ASSERT_TRUE(PutTail(SomeTail(), with_tail));
  for (int i = 0; i < 3; ++i) {
    NoteUniqueId(plain);
    NoteUniqueId(with_tail);
  }
  EXPECT_EQ(NotedUniqueIds().size(), 2u);
  EXPECT_EQ(AddressFromNotedIds().ToText(), "tcp://10.0.0.7:23456");
  EXPECT_EQ(TokensOfNotedIds(nullptr).size(), 2u);
  EXPECT_TRUE(TokensOfNotedIds("host:1").empty());
  for (std::uint8_t i = 10; i < 30; ++i) {
    plain[0] = i;
    NoteUniqueId(plain);
  }
  EXPECT_EQ(NotedUniqueIds().size(), kNotedIds);
}

TEST(UniqueId, CrcIsTheUsualOne) {
  EXPECT_EQ(Crc32(std::array<std::uint8_t, 9>{'1', '2', '3', '4', '5', '6', '7', '8', '9'}), 0xcbf43926u);
}

TEST(Endpoint, FormsAndKinds) {
  EXPECT_EQ(Endpoint::Parse("10.0.0.1", 5)->ToText(), "10.0.0.1:5");
  EXPECT_EQ(Endpoint::Parse("::ffff:10.0.0.1", 5), Endpoint::Parse("10.0.0.1", 5));
  EXPECT_EQ(Endpoint::Parse("2001:db8::1", 5)->ToText(), "[2001:db8::1]:5");
  EXPECT_FALSE(Endpoint::Parse("node-1", 5));
  EXPECT_TRUE(Endpoint::Parse("127.0.1.1", 5)->IsLoopback());
  EXPECT_TRUE(Endpoint::Parse("::1", 5)->IsLoopback());
  EXPECT_FALSE(Endpoint::Parse("10.0.0.1", 5)->IsLoopback());
  EXPECT_TRUE(Endpoint::Any(1).IsAny());
  EXPECT_TRUE(Endpoint::Parse("0.0.0.0", 1)->IsAny());
  EXPECT_TRUE(IsOwn(*Endpoint::Parse("127.0.0.1", 1)));
  EXPECT_FALSE(IsOwn(*Endpoint::Parse("192.0.2.1", 1)));  // TEST-NET-1, RFC 5737
}

TEST(Resolver, HostsFile) {
  constexpr const char* kFile =
      "# comment 10.0.0.9 node-1\n127.0.0.1 localhost\n\n10.0.0.7\tnode-1.site Node-1 # 10.0.0.8\n::1 localhost "
      "node-1\nbad";
  const std::vector<Endpoint> found = InHostsFile(kFile, "node-1");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].ToText(), "10.0.0.7:0");
  EXPECT_EQ(found[1].ToText(), "[::1]:0");
  EXPECT_TRUE(InHostsFile(kFile, "node").empty());
}

}  // namespace
}  // namespace ncclwatch::exchange
