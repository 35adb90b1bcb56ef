#include <vector>

#include "tests/softgpu/checks/cuda_support.h"

namespace softgpu {
namespace {

class Graphs : public CudaCheck {
 protected:
  void Begin(CUstream stream) { ASSERT_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)); }

  CUgraph End(CUstream stream) {
    CUgraph graph = nullptr;
    EXPECT_CU(cuStreamEndCapture(stream, &graph));
    return graph;
  }

  CUgraphExec Instantiate(CUgraph graph) {
    CUgraphExec executable = nullptr;
    EXPECT_CU(cuGraphInstantiate(&executable, graph, 0));
    return executable;
  }

  // These two take the edges' kinds since CUDA 13.
  CUresult Connect(CUgraph graph, CUgraphNode from, CUgraphNode to) {
#if CUDA_VERSION >= 13000
    return cuGraphAddDependencies(graph, &from, &to, nullptr, 1);
#else
    return cuGraphAddDependencies(graph, &from, &to, 1);
#endif
  }
  size_t Edges(CUgraph graph) {
    size_t count = 0;
#if CUDA_VERSION >= 13000
    EXPECT_CU(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
#else
    EXPECT_CU(cuGraphGetEdges(graph, nullptr, nullptr, &count));
#endif
    return count;
  }

  std::vector<CUgraphNodeType> Types(CUgraph graph) {
    size_t count = 0;
    EXPECT_CU(cuGraphGetNodes(graph, nullptr, &count));
    std::vector<CUgraphNode> nodes(count);
    EXPECT_CU(cuGraphGetNodes(graph, nodes.data(), &count));
    std::vector<CUgraphNodeType> types(count);
    for (size_t i = 0; i < count; ++i) EXPECT_CU(cuGraphNodeGetType(nodes[i], &types[i]));
    return types;
  }
};

TEST_F(Graphs, CaptureRunsNothingAndEachLaunchEverything) {
  CUstream stream = NewStream();
  int* pinned = nullptr;
  ASSERT_CU(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), 64, 0));
  CUdeviceptr memory = 0;
  ASSERT_CU(cuMemAlloc(&memory, 64));
  *pinned = 5;
  Begin(stream);
  ASSERT_CU(cuMemsetD8Async(memory, 0, 64, stream));
  ASSERT_CU(cuMemcpyHtoDAsync(memory, pinned, sizeof(int), stream));
  ASSERT_CU(Say(stream, 'a'));
  ASSERT_CU(cuMemcpyDtoHAsync(pinned + 1, memory, sizeof(int), stream));
  ASSERT_CU(cuStreamWriteValue32(stream, reinterpret_cast<CUdeviceptr>(pinned + 2), 9, 0));
  CUgraph graph = End(stream);
  EXPECT_EQ(Types(graph),
            (std::vector<CUgraphNodeType>{CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_HOST,
                                          CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP}));
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(Said(), "");
  EXPECT_EQ(pinned[1], 0);
  CUgraphExec executable = Instantiate(graph);
  ASSERT_CU(cuGraphDestroy(graph));
  for (int launch = 1; launch <= 3; ++launch) {
    *pinned = launch;
    pinned[2] = 0;
    ASSERT_CU(cuGraphLaunch(executable, stream));
    ASSERT_CU(cuStreamSynchronize(stream));
    EXPECT_EQ(pinned[1], launch);
    EXPECT_EQ(pinned[2], 9);
  }
  EXPECT_EQ(Said(), "aaa");
  EXPECT_CU(cuGraphExecDestroy(executable));
  EXPECT_EQ(cuGraphLaunch(executable, stream), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Graphs, LaunchesKeepStreamOrder) {
  CUstream stream = NewStream();
  Begin(stream);
  ASSERT_CU(Say(stream, 'g'));
  CUgraphExec executable = Instantiate(End(stream));
  ASSERT_CU(softgpuStall(stream, -1));
  ASSERT_CU(Say(stream, '1'));
  ASSERT_CU(cuGraphLaunch(executable, stream));
  ASSERT_CU(Say(stream, '2'));
  ASSERT_CU(cuGraphLaunch(executable, stream));
  ASSERT_CU(cuGraphExecDestroy(executable));  // what is launched still runs
  EXPECT_EQ(Said(), "");
  ASSERT_CU(softgpuRelease(stream));
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(Said(), "1g2g");
}

TEST_F(Graphs, ForkedBranchesRunSideBySide) {
  CUstream stream = NewStream();
  CUstream side = NewStream();
  CUevent fork = NewEvent();
  CUevent join = NewEvent();
  int* pinned = nullptr;
  ASSERT_CU(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), 64, 0));
  auto word = [&](int i) { return reinterpret_cast<CUdeviceptr>(pinned + i); };
  Begin(stream);
  ASSERT_CU(cuEventRecord(fork, stream));
  ASSERT_CU(cuStreamWaitEvent(side, fork, 0));
  // Each branch waits for the other: one after the other, neither would end.
  ASSERT_CU(cuStreamWriteValue32(stream, word(0), 1, 0));
  ASSERT_CU(cuStreamWaitValue32(stream, word(1), 1, CU_STREAM_WAIT_VALUE_EQ));
  ASSERT_CU(cuStreamWriteValue32(side, word(1), 1, 0));
  ASSERT_CU(cuStreamWaitValue32(side, word(0), 1, CU_STREAM_WAIT_VALUE_EQ));
  ASSERT_CU(Say(side, 's'));
  ASSERT_CU(cuEventRecord(join, side));
  ASSERT_CU(cuStreamWaitEvent(stream, join, 0));
  ASSERT_CU(Say(stream, 'j'));
  CUgraphExec executable = Instantiate(End(stream));
  std::string expected;
  for (int launch = 0; launch < 20; ++launch) {
    pinned[0] = pinned[1] = 0;
    ASSERT_CU(cuGraphLaunch(executable, stream));
    ASSERT_CU(cuStreamSynchronize(stream));
    expected += "sj";
    EXPECT_EQ(Said(), expected);
  }
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  ASSERT_CU(cuStreamIsCapturing(side, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(Graphs, KernelNodesKeepTheirArgument) {
  struct Argument {
    std::atomic<int> runs{0};
    std::atomic<int> destroyed{0};
  } argument;
  CUstream stream = NewStream();
  Begin(stream);
  ASSERT_CU(softgpuEnqueue(
      stream, [](void* a) { ++static_cast<Argument*>(a)->runs; }, &argument,
      [](void* a) { ++static_cast<Argument*>(a)->destroyed; }));
  CUgraph graph = End(stream);
  EXPECT_EQ(Types(graph), std::vector<CUgraphNodeType>{CU_GRAPH_NODE_TYPE_KERNEL});
  CUgraphExec executable = Instantiate(graph);
  ASSERT_CU(cuGraphDestroy(graph));
  for (int i = 0; i < 3; ++i) ASSERT_CU(cuGraphLaunch(executable, stream));
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(argument.runs, 3);
  EXPECT_EQ(argument.destroyed, 0);
  ASSERT_CU(cuGraphExecDestroy(executable));
  EXPECT_EQ(argument.destroyed, 1);
}

TEST_F(Graphs, ExternalEventsCanBeAskedInEveryReplay) {
  CUstream stream = NewStream();
  CUevent event = NewEvent();
  Begin(stream);
  ASSERT_CU(softgpuStall(stream, -1));
  ASSERT_CU(cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL));
  CUgraph graph = End(stream);
  EXPECT_EQ(Types(graph), (std::vector<CUgraphNodeType>{CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_EVENT_RECORD}));
  CUgraphExec executable = Instantiate(graph);
  EXPECT_CU(cuEventQuery(event));
  ASSERT_CU(cuGraphLaunch(executable, stream));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  ASSERT_CU(softgpuRelease(stream));
  EXPECT_CU(cuEventSynchronize(event));
}

TEST_F(Graphs, ALaunchCanBeCaptured) {
  CUstream stream = NewStream();
  Begin(stream);
  ASSERT_CU(Say(stream, 'i'));
  CUgraphExec inner = Instantiate(End(stream));
  Begin(stream);
  ASSERT_CU(Say(stream, '<'));
  ASSERT_CU(cuGraphLaunch(inner, stream));
  ASSERT_CU(Say(stream, '>'));
  CUgraphExec outer = Instantiate(End(stream));
  ASSERT_CU(cuGraphLaunch(outer, stream));
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(Said(), "<i>");
}

TEST_F(Graphs, CanBeBuiltByHand) {
  CUgraph graph = nullptr;
  ASSERT_CU(cuGraphCreate(&graph, 0));
  static std::string said;
  said.clear();
  auto node = [](char* letter) {
    return CUDA_HOST_NODE_PARAMS{[](void* a) { said += *static_cast<char*>(a); }, letter};
  };
  char letters[] = {'a', 'b'};
  CUDA_HOST_NODE_PARAMS a = node(&letters[0]);
  CUDA_HOST_NODE_PARAMS b = node(&letters[1]);
  CUgraphNode first = nullptr;
  CUgraphNode second = nullptr;
  CUgraphNode last = nullptr;
  ASSERT_CU(cuGraphAddHostNode(&second, graph, nullptr, 0, &b));
  ASSERT_CU(cuGraphAddHostNode(&first, graph, nullptr, 0, &a));
  ASSERT_CU(cuGraphAddEmptyNode(&last, graph, &second, 1));
  ASSERT_CU(Connect(graph, first, second));
  EXPECT_EQ(Edges(graph), 2U);
  CUstream stream = NewStream();
  ASSERT_CU(cuGraphLaunch(Instantiate(graph), stream));
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(said, "ab");
  ASSERT_CU(Connect(graph, last, first));
  CUgraphExec executable = nullptr;
  EXPECT_EQ(cuGraphInstantiate(&executable, graph, 0), CUDA_ERROR_INVALID_VALUE);  // a cycle
}

TEST_F(Graphs, AnExecutableTakesOverAnAlikeGraph) {
  CUstream stream = NewStream();
  Begin(stream);
  ASSERT_CU(Say(stream, 'o'));
  CUgraphExec executable = Instantiate(End(stream));
  Begin(stream);
  ASSERT_CU(Say(stream, 'n'));
  CUgraph alike = End(stream);
  Begin(stream);
  ASSERT_CU(Say(stream, 'x'));
  ASSERT_CU(Say(stream, 'y'));
  CUgraph longer = End(stream);
  CUgraphExecUpdateResultInfo info{};
  EXPECT_CU(cuGraphExecUpdate(executable, alike, &info));
  EXPECT_EQ(cuGraphExecUpdate(executable, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  ASSERT_CU(cuGraphLaunch(executable, stream));
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(Said(), "n");
}

TEST_F(Graphs, UserObjectsLiveAsLongAsWhatHoldsThem) {
  std::atomic<int> destroyed{0};
  CUstream stream = NewStream();
  Begin(stream);
  ASSERT_CU(Say(stream, 'a'));
  CUgraph graph = End(stream);
  CUuserObject object = nullptr;
  auto destroy = [](void* a) { ++*static_cast<std::atomic<int>*>(a); };
  ASSERT_CU(cuUserObjectCreate(&object, &destroyed, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  ASSERT_CU(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CUgraphExec executable = Instantiate(graph);
  ASSERT_CU(cuGraphDestroy(graph));
  EXPECT_EQ(destroyed, 0);
  ASSERT_CU(cuGraphExecDestroy(executable));
  EXPECT_EQ(destroyed, 1);
}

}  // namespace
}  // namespace softgpu
