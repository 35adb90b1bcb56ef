// What is hidden, what stays, and that nothing changes its length.
#include "analyzer/bundle/redactor.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "analyzer/bundle/addresses.h"
#include "analyzer/bundle/names_in_text.h"
#include "tests/support/made_secrets.h"

namespace ncclwatch::analyzer {
namespace {

TEST(Redactor, HostsWithAndWithoutTheirDomain) {
  Redactor redactor;
  redactor.LearnHost("node17.cluster.example");
  EXPECT_EQ(redactor.Text("node17 and node17.cluster.example, not node170 or localhost"),
            "h00001 and h00001.d00000000000001, not node170 or localhost");
  EXPECT_EQ(redactor.Text("prterun-node17-699_1, node17_a and node17."), "prterun-h00001-699_1, h00001_a and h00001.");
}

TEST(Redactor, FoldersAndFilesOfWhoeverThatIs) {
  Redactor redactor;
  EXPECT_EQ(redactor.Text("/home/ann/train_v2.py:57 in main"), "/home/p01/f0000001.py:57 in main");
  EXPECT_EQ(redactor.Text("step (train_v2.py:12)"), "step (f0000001.py:12)");
  EXPECT_EQ(redactor.Text("/team/main/runs"), "/p001/p002/p003") << "`main` alone is a function";
  EXPECT_EQ(redactor.Text("in main"), "in main");
  EXPECT_EQ(redactor.Text("file:///team/runs //team/runs /~ann"), "file:///p001/p003 //p001/p003 /f004");
}

TEST(Redactor, WhatEverybodyHasStays) {
  Redactor redactor;
  for (const std::string text :
       {"/usr/lib/x86_64-linux-gnu/libc.so.6+0x1f", "/proc/12/maps", "rank 3/8 read 1/2 of a and/or b",
        "127.0.0.1:29500", "https://example.org/x", "NCCL 2.28.9"})
    EXPECT_EQ(redactor.Text(text), text);
  EXPECT_EQ(redactor.Text("/home/ann/v/lib/python3.11/site-packages/torch/lib/libtorch.so"),
            "/home/p01/1/p02/p000000001/site-packages/torch/lib/libtorch.so");
}

TEST(Redactor, AddressesAndArguments) {
  Redactor redactor;
  EXPECT_EQ(redactor.Text("from 10.31.4.17 to 10.31.4.18 and 10.31.4.17"),
            "from 00.00.0.01 to 00.00.0.02 and 00.00.0.01");
  EXPECT_EQ(redactor.Text("command: python3 train.py --key abc\nName: python3"),
            "command: python3 xxxxxxxx xxxxx xxx\nName: python3");
  EXPECT_EQ(redactor.Text("command: python3 -c a\n\nb\n\nName:\tpython3"),
            "command: python3 xx xxxx\n\nName:\tpython3");
}

TEST(Redactor, DocumentsStayDocuments) {
  Redactor redactor;
  redactor.LearnHost("rank");  // a host may have any name
  EXPECT_EQ(redactor.JsonLines("{\"rank\":3,\"host\":\"rank\"}\nno json on rank\n"),
            "{\"rank\":3,\"host\":\"h001\"}\nno json on h001\n");
}

TEST(Redactor, SecretsOfAllKinds) {
  Redactor redactor;
  std::mt19937 draw(1);
  for (const tests::Form& form : tests::kForms) {
    const std::string secret = tests::MadeSecret(form, draw), text = "login (" + secret + ") failed\n";
    const std::string redacted = redactor.Text(text);
    EXPECT_EQ(redacted.find(secret.substr(form.beginning.size())), std::string::npos) << redacted;
    EXPECT_EQ(redacted.size(), text.size());
  }
  EXPECT_EQ(redactor.Text("redis://me:hunter2@localhost:1/2"), "redis://**********@localhost:1/2");
  Redactor of_user("pin");
  EXPECT_EQ(of_user.Text("pin=1234 --pin abcd"), "pin=0000 --pin ****");
}

TEST(Redactor, SecretsByTheirKeysInDocuments) {
  Redactor redactor;
  EXPECT_EQ(redactor.JsonLines(R"({"password":"a b","n":1,"secrets":{"x":"y","z":[3]},"token":5,"key":"layers.0.w"})"),
            R"({"password":"***","n":1,"secrets":{"x":"***","z":[0]},"token":5,"key":"layers.0.w"})"
            "\n");
  EXPECT_EQ(redactor.JsonLines(R"({"argv":["a","--password","hunter2","-x"]})"),
            R"({"argv":["a","--password","*******","-x"]})"
            "\n");
  EXPECT_EQ(redactor.JsonLines(R"([{"name":"HF_TOKEN","value":"abc"},{"name":"NCCL_ALGO","value":"Ring"}])"),
            R"([{"name":"HF_TOKEN","value":"***"},{"name":"NCCL_ALGO","value":"Ring"}])"
            "\n");
  EXPECT_FALSE(redactor.Json("{\"torn\": ").has_value());
  EXPECT_TRUE(redactor.Json("{\"a\": 1}\n{\"a\": 2}\n").has_value()) << "one document a line";
  EXPECT_FALSE(redactor.Json(std::string(100'000, '[') + std::string(100'000, ']')).has_value()) << "no stack for that";
}

TEST(Redactor, AddressesOfAllKinds) {
  Redactor redactor;
  for (const std::string address : {"fe80::e42:a1ff:fe00:1", "2001:db8::17", "fd00:1148:9000:5000:4:200:3:ff22",
                                    "0c:42:a1:00:00:0b", "0c-42-a1-00-00-0b", "ann.b+c@mail.example.com", "10.1.2.3",
                                    "80:00:02:08:fe:80:00:00:00:00:00:00:0c:42:a1:00:00:00:00:0b"}) {
    const std::string text = "at [" + address + "]:29500, '" + address + "'", redacted = redactor.Text(text);
    EXPECT_EQ(redacted.find(address), std::string::npos) << redacted;
    EXPECT_EQ(redactor.Text(redacted), redacted);
    EXPECT_EQ(redacted.size(), text.size());
  }
  for (const std::string text :
       {"12:34:56 2026-11-28T12:34:56.789 12:34:56.789", "std::vector c10::Error at::Tensor a::b",
        "0000:9b:00.0 PCI:0000:9b:00", "[::1]:29500 ::", "run-24-01-02-03-04-05", "modprobe@fuse.service",
        "CUDA version: 12.6.1.006", "cudnn=9.4.0.58", "nvidia-nccl-cu12==2.18.1.0", "\"cuda_version\":\"12.6.1.006\"",
        "535.104.05.12", "0x8f3c09d2a1b45e77", "commId 8f3c09d2a1b45e77", "GPU-509665ad-b600-ac93-3616-d754b23d636d",
        "1:2:3:4", "ab:cd", "</task>"})
    EXPECT_EQ(redactor.Text(text), text);
}

struct Named {
  std::string line, host;
};
TEST(Redactor, HostsThatNoBoxNames) {
  for (const auto& [line, host] : {
           Named{"gandalf:795:801 [0] NCCL INFO Bootstrap : Using eth0", "gandalf"},
           Named{"[mgmt1:24113:0:24113] ib_mlx5_log.c:143 failed", "mgmt1"},
           Named{"[n-07:4711] *** Process received signal ***", "n-07"},
           Named{"May 18 09:12:40 gpu-x8 kernel: NVRM: loading", "gpu-x8"},
           Named{"2026-05-18T09:12:40.123+00:00 gandalf sshd[12]: closed", "gandalf"},
           Named{"srun: error: l40s-031: task 3: Killed", "l40s-031"},
           Named{"slurmstepd: error: *** JOB 12 ON r6i5n1 CANCELLED AT 2026", "r6i5n1"},
           Named{"  host      : worker-3.local", "worker-3"},
           Named{"SLURM_NODELIST=sith[04-07,11]", "sith05"},
           Named{"MASTER_ADDR=gandalf", "gandalf"},
           Named{"torchrun --rdzv-endpoint=gandalf:29500 x", "gandalf"},
           Named{"The client socket cannot be initialized to connect to [ai3.mbk.ifra]:23456", "ai3"},
           Named{"Connection closed by remote peer node17.cluster.example.com<50120>", "node17"},
           Named{"ann@gandalf:~/x$ ls", "gandalf"},
           Named{"JobEnvironment(job_id=3, hostname=gpu5146, local_rank=0(8))", "gpu5146"},
           Named{"seen on node17.hpc.uni-x.de today", "node17"},
           Named{"ip-10-0-1-23 is up", "ip-10-0-1-23"},
           Named{"http://artifactory9:8081/team/x", "artifactory9"},
       }) {
    Redactor redactor;
    redactor.Learn(line);
    const std::string text = line + "\n\"" + host + "\" timed out";
    EXPECT_EQ(redactor.Text(text).find(host), std::string::npos) << redactor.Text(text);
    EXPECT_EQ(redactor.Text(redactor.Text(text)), redactor.Text(text));
  }
}

TEST(Redactor, HostsOfOneFamilyAndUsers) {
  Redactor redactor;
  redactor.Learn("node17:1:1 [0] NCCL INFO x\n/home/annika/x\n");
  EXPECT_EQ(redactor.Text("node18 and node17 of annika, not node170"), "h00003 and h00001 of u00002, not node170");
}

TEST(Redactor, WordsOfProgramsAreNoHosts) {
  Redactor redactor;
  const std::string text =
      "[axolotl.train.log:61] [PID:2210] [api_server.py:1081] torch.nn.functional.linear(x) self.logger.info(1)\n"
      "2026-01-17T09:12:03.118Z Downloading torch: 3%\nhost=None, host: memory, node: 3, hostname=localhost\n"
      "model.embed_tokens.weight skimage.io np.int libnccl.so.2 data.tar.gz v2.28.9 on rank 3\n"
      "https://pytorch.org/docs/x https://github.com/NVIDIA/nccl/issues\n";
  redactor.Learn(text);
  EXPECT_EQ(redactor.Text(text), text);
}

TEST(Redactor, UrlsOfPrivateHosts) {
  Redactor redactor;
  EXPECT_EQ(redactor.Text("s3://bucket-a/team/x.pt?a=1 git clone https://git9.corp/team/x"),
            "s3://h0000001/p001/1.pt?a=1 git clone https://h002.d003/p001/2");
}

TEST(Redactor, KeepsEveryLength) {
  std::mt19937_64 draw(1);
  constexpr char kLetters[] = "ab/.:-_ 1279\n\"+\\{}";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = draw() % 9 == 0 ? "command: " : "";
    for (std::size_t length = draw() % 60; length > 0; --length) text += kLetters[draw() % (sizeof kLetters - 1)];
    Redactor redactor;
    redactor.LearnHost("ab.b");
    redactor.Keep("a.b");
    ASSERT_EQ(redactor.Text(text).size(), text.size()) << text;
  }
}

TEST(Redactor, NoBoxIsNotTakenForOne) {
  Redactor redactor;
  for (std::string bytes : {std::string(), std::string(100, 'x'), std::string(8192, '\0')}) {
    const std::string before = bytes;
    EXPECT_FALSE(redactor.Box(&bytes));
    EXPECT_EQ(bytes, before);
  }
}

}  // namespace
}  // namespace ncclwatch::analyzer
