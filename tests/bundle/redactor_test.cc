// What is hidden, what stays, and that nothing changes its length.
#include "analyzer/bundle/redactor.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

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
