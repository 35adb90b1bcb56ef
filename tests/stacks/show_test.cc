// Folding, the short account of a thread, the merged tree, and the head of a file as its reader takes it.
#include <gtest/gtest.h>

#include "analyzer/stacks/join_python.h"
#include "analyzer/stacks/show/fold.h"
#include "analyzer/stacks/show/merge.h"
#include "analyzer/stacks/show/text.h"
#include "core/reader/stacks.h"

namespace ncclwatch::stacks {
namespace {

Frame Native(const std::string& function, const std::string& module, std::uint64_t address = 0x1234) {
  Frame frame;
  frame.function = function;
  frame.module = module;
  frame.module_path = "/usr/lib/" + module;
  frame.module_address = frame.address = address;
  return frame;
}

Frame Python(const std::string& function, const std::string& file, int line) {
  Frame frame;
  frame.kind = Frame::Kind::kPython;
  frame.function = function;
  frame.file = file;
  frame.line = line;
  return frame;
}

std::vector<Frame> Start() { return {Native("", "libc.so.6"), Native("clone3", "libc.so.6")}; }

std::vector<Frame> operator+(std::vector<Frame> a, const std::vector<Frame>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<std::string> Texts(const std::vector<Frame>& frames) {
  std::vector<std::string> texts;
  for (const Line& line : Fold(frames)) texts.push_back(line.text);
  return texts;
}

ProcessStacks Process(int pid, int rank, const std::vector<Frame>& frames) {
  ProcessStacks process;
  process.pid = process.matters = pid;
  process.rank = rank;
  process.start_time = 77;
  process.host = "node7";
  process.at_ns = 123456789;
  Thread thread;
  thread.tid = pid;
  thread.name = "train";
  thread.state = 'S';
  thread.frames = frames;
  process.threads.push_back(thread);
  return process;
}

using Lines = std::vector<std::string>;

TEST(Fold, LibrariesFoldIntoTheCallThatWasMadeOfThem) {
  const std::vector<Frame> frames =
      std::vector<Frame>{Native("syscall", "libc.so.6"), Native("wait", "libnccl.so.2"), Native("", "libnccl.so.2.28"),
                         Native("ncclGroupEnd", "libnccl.so.2"), Native("train", "a.out")} +
      Start();
  EXPECT_EQ(Texts(frames),
            (Lines{"syscall (libc.so.6)", "ncclGroupEnd [libnccl: 3 frames]", "train (a.out)", "[thread start]"}));
}

TEST(Fold, OneFrameOfALibraryStaysAsItIs) {
  EXPECT_EQ(Texts({Native("cuInit", "libcuda.so.1")}), (Lines{"cuInit (libcuda.so.1)"}));
  EXPECT_EQ(Texts({Native("", "libcuda.so.1")}), (Lines{"[libcuda: 1 frame]"}));
  EXPECT_EQ(Texts({Native("", "libtorch_cpu.so"), Native("", "libc10.so")}), (Lines{"[libtorch: 2 frames]"}));
}

TEST(Fold, OfTheCLibraryTheFunctionThatWasCalled) {
  EXPECT_EQ(Texts(std::vector<Frame>{Native("", "libc.so.6"), Native("pthread_cond_wait", "libc.so.6"),
                                     Native("Wait", "a.out")} +
                  Start()),
            (Lines{"pthread_cond_wait (libc.so.6)", "Wait (a.out)", "[thread start]"}));
}

TEST(Fold, ProgramsWithoutSymbolsBeginToo) {
  const std::vector<Frame> frames = {Native("poll", "libc.so.6"), Native("", "a.out", 0x10), Native("", "libc.so.6"),
                                     Native("__libc_start_main", "libc.so.6"), Native("", "a.out", 0x20)};
  EXPECT_EQ(Texts(frames), (Lines{"poll (libc.so.6)", "a.out+0x10", "[program start]"}));
}

TEST(Fold, OurOwnFramesAreNoise) {
  const std::vector<Line> lines =
      Fold({Native("ncclAllReduce", "libncclwatch.so"), Native("ncclAllReduce", "libnccl.so.2")});
  EXPECT_EQ(lines[0].text, "[libncclwatch: 1 frame]");
  EXPECT_TRUE(lines[0].noise);
  EXPECT_FALSE(lines[1].noise);
}

TEST(Fold, AFunctionThatCallsItselfStandsOnce) {
  const Frame again = Native("walk", "a.out");
  EXPECT_EQ(Texts(std::vector<Frame>{Native("f", "a.out"), again, again, again} + Start()),
            (Lines{"f (a.out)", "walk (a.out) [3 times]", "[thread start]"}));
  EXPECT_EQ(Texts({again, again, Native("f", "a.out")}), (Lines{"walk (a.out) [2 times]", "f (a.out)"}));
  EXPECT_EQ(Texts({again, again}), (Lines{"walk (a.out) [2 times]"}));
}

TEST(Fold, NothingIsNothing) {
  EXPECT_TRUE(Fold({}).empty());
  EXPECT_TRUE(Where(Thread()).empty());
}

TEST(ShortText, FilesAreNamedSoThatTheyAreKnown) {
  EXPECT_EQ(ShortText(Python("next_batch", "/home/user/train.py", 57)), "next_batch (train.py:57)");
  EXPECT_EQ(ShortText(Python("get", "/lib/queues/__init__.py", 3)), "get (queues/__init__.py:3)");
  EXPECT_EQ(ShortText(Python("f", "<stdin>", 0)), "f (<stdin>)");
  EXPECT_EQ(ShortText(Native("", "", 0x7f00)), "0x7f00");
  EXPECT_EQ(ShortText(Python("a\nb", "c\033.py", 1)), "a?b (c?.py:1)");
}

TEST(Where, ThePythonLineFirstThenWhatItIsIn) {
  Thread thread;
  thread.frames = std::vector<Frame>{Native("poll", "libc.so.6"),
                                     Native("select_poll_poll", "select.so"),
                                     Native("cfunction_vectorcall", "libpython3.11.so.1.0"),
                                     Python("next_batch", "/w/train.py", 57),
                                     Python("main", "/w/train.py", 91),
                                     Native("PyEval_EvalCode", "libpython3.11.so.1.0")} +
                  Start();
  EXPECT_EQ(Where(thread), (Lines{"next_batch (train.py:57) in select_poll_poll (select.so) in poll (libc.so.6)",
                                  "main (train.py:91)"}));
}

TEST(Where, TheProgramsOwnLineAndHowDeepItIsInOthers) {
  Thread thread;
  const std::string standard = "/usr/lib/python3.11/", package = "/v/lib/python3.11/site-packages/torch/";
  thread.frames = {Native("poll", "libc.so.6"),
                   Python("Poll.poll", standard + "selectors.py", 1),
                   Python("Queue.get", standard + "multiprocessing/queues.py", 2),
                   Python("_try_get", package + "dataloader.py", 3),
                   Python("__next__", package + "dataloader.py", 4),
                   Python("next_batch", "/w/train.py", 5),
                   Python("main", "/w/train.py", 6)};
  EXPECT_EQ(Where(thread),
            (Lines{"next_batch (train.py:5) in __next__ (dataloader.py:4) in _try_get (dataloader.py:3) in Queue.get "
                   "(queues.py:2) in poll (libc.so.6)",
                   "main (train.py:6)"}));
  thread.frames.resize(5);
  EXPECT_TRUE(Where(thread).front().starts_with("_try_get (dataloader.py:3) in "));
  thread.frames.resize(3);
  EXPECT_TRUE(Where(thread).front().starts_with("Poll.poll (selectors.py:1) in "));
}

TEST(Where, ABackendInTheProgramsFilesIsNotTheProgram) {
  Thread thread;
  const std::string torch = "/v/lib/python3.11/site-packages/torch/";
  thread.frames = {Native("pthread_cond_wait", "libc.so.6"),
                   Python("Future.wait", torch + "futures/__init__.py", 80),
                   Python("Work.wait", "/w/backend.py", 87),
                   Native("call", "libtorch_python.so"),
                   Python("OpOverloadPacket.__call__", torch + "_ops.py", 2),
                   Python("evaluate", "/w/train.py", 16)};
  EXPECT_TRUE(Where(thread).front().starts_with("evaluate (train.py:16) in ")) << Where(thread).front();
}

TEST(Where, OfNativeFramesTheInnermostSix) {
  Thread thread;
  for (int i = 0; i < 9; ++i) thread.frames.push_back(Native("f" + std::to_string(i), "a.out"));
  ASSERT_EQ(Where(thread).size(), kMostWhere);
  EXPECT_EQ(Where(thread).front(), "f0 (a.out)");
}

TEST(Merge, ThousandRanksReadAsAFewLines) {
  std::vector<ProcessStacks> processes;
  for (int rank = 0; rank < 1000; ++rank) {
    const Frame inner = rank == 2 ? Python("next_batch", "/w/train.py", 57) : Python("all_reduce", "/w/comm.py", 10);
    processes.push_back(Process(5000 + rank, rank, {inner, Python("main", "/w/train.py", 91)}));
  }
  EXPECT_EQ(TreeText(Merge(processes, Which::kMatter), processes),
            "ranks 0-999 (1000)\n"
            "  main (train.py:91)\n"
            "    ranks 0,1,3-999 (999)\n"
            "      all_reduce (comm.py:10)\n"
            "    rank 2 (1)\n"
            "      next_batch (train.py:57)\n");
  EXPECT_LT(MergedText(processes).size(), 400u);
}

TEST(Merge, AThreadMayEndWhereOthersGoOn) {
  const std::vector<ProcessStacks> processes = {
      Process(10, 0, {Native("loop", "a.out"), Native("main", "a.out")}),
      Process(11, -1, {Native("work", "a.out"), Native("loop", "a.out"), Native("main", "a.out")})};
  EXPECT_EQ(TreeText(Merge(processes, Which::kMatter), processes),
            "rank 0 (1), pid 11 (1)\n"
            "  main (a.out)\n"
            "  loop (a.out)\n"
            "    (here: 1 thread)\n"
            "    pid 11 (1)\n"
            "      work (a.out)\n");
}

TEST(Merge, OtherThreadsGoByTheirNames) {
  ProcessStacks process = Process(10, 4, {Native("main", "a.out")});
  for (int i = 0; i < 12; ++i) {
    Thread thread = process.threads.front();
    thread.tid = 100 + i;
    thread.name = "pt_worker_" + std::to_string(i);
    thread.frames = std::vector<Frame>{Native("wait", "a.out")} + Start();
    process.threads.push_back(thread);
  }
  const std::vector<ProcessStacks> processes = {process};
  EXPECT_EQ(TreeText(Merge(processes, Which::kOthers), processes),
            "rank 4 (1), 12 threads\n"
            "  thread 'pt_worker_#'\n"
            "  wait (a.out)\n");
}

TEST(RangesText, Ranges) {
  EXPECT_EQ(RangesText({}), "");
  EXPECT_EQ(RangesText({3}), "3");
  EXPECT_EQ(RangesText({1, 0}), "0,1");
  EXPECT_EQ(RangesText({7, 0, 1, 3, 4, 5, 6, 6}), "0,1,3-7");
}

TEST(JoinPython, LoopsGiveWayToWhatTheyRun) {
  std::vector<Frame> frames = {Native("read", "libc.so.6"), Native("_PyEval_EvalFrameDefault", "python3.11"),
                               Native("PyObject_Call", "python3.11"), Native("_PyEval_EvalFrameDefault", "python3.11"),
                               Native("main", "python3.11")};
  JoinPython({{"inner", "a.py", 1, false}, {"middle", "a.py", 2, true}, {"outer", "a.py", 3, true}}, &frames);
  std::vector<std::string> functions;
  functions.reserve(frames.size());
  for (const Frame& frame : frames) functions.push_back(frame.function);
  EXPECT_EQ(functions, (Lines{"read", "inner", "middle", "PyObject_Call", "outer", "main"}));
}

TEST(JoinPython, WithoutNamesOrFramesNothingIsLost) {
  std::vector<Frame> stripped = {Native("read", "libc.so.6"), Native("", "python3.11"), Native("", "python3.11")};
  JoinPython({{"f", "a.py", 1, true}, {"g", "a.py", 2, true}}, &stripped);
  ASSERT_EQ(stripped.size(), 5u);
  EXPECT_EQ(stripped[1].function, "f");
  EXPECT_EQ(stripped[2].function, "g");
  std::vector<Frame> none;
  JoinPython({{"f", "a.py", 1, true}}, &none);
  ASSERT_EQ(none.size(), 1u);
  std::vector<Frame> more = {Native("_PyEval_EvalFrameDefault", "python3"),
                             Native("_PyEval_EvalFrameDefault", "python3")};
  JoinPython({{"f", "a.py", 1, true}}, &more);
  EXPECT_EQ(more.back().function, "_PyEval_EvalFrameDefault");
}

TEST(FileText, ItsHeadIsReadBack) {
  ProcessStacks process = Process(4711, 2, {Native("poll", "libc.so.6"), Python("next_batch", "/w/train.py", 57)});
  process.state = {"thread 4711 'train' is sleeping in poll(7: pipe); no process holds the writer's end of pipe 7",
                   "1 thread: 1 sleeping"};
  const auto head = reader::ParseProcessStacks(FileText(process));
  ASSERT_TRUE(head);
  EXPECT_EQ(head->pid, 4711u);
  EXPECT_EQ(head->start_time, 77u);
  EXPECT_EQ(head->rank, 2);
  EXPECT_EQ(head->host, "node7");
  EXPECT_EQ(head->at_ns, 123456789);
  EXPECT_EQ(head->where, (Lines{"next_batch (train.py:57) in poll (libc.so.6)"}));
}

TEST(FileText, NothingFromElsewhereBreaksItsLines) {
  ProcessStacks process = Process(1, 0, {Python("f\nwhere forged", "/w/x.py\nprocess pid 9", 1)});
  process.threads.front().name = "evil\nthread";
  process.state = {"a\nwhere b"};
  process.command = "run\n\nthread 1";
  const std::string text = FileText(process);
  EXPECT_EQ(text.find("\nwhere forged"), std::string::npos);
  EXPECT_EQ(text.find("\nprocess pid 9"), std::string::npos);
  EXPECT_EQ(text.find("\nwhere b"), std::string::npos);
  const auto head = reader::ParseProcessStacks(text);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->where.size(), 1u);
}

}  // namespace
}  // namespace ncclwatch::stacks
