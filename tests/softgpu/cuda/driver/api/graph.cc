// Building, asking about, instantiating and launching graphs.
#include <algorithm>
#include <cstring>

#include "tests/softgpu/cuda/driver/capture.h"
#include "tests/softgpu/cuda/driver/event.h"
#include "tests/softgpu/cuda/driver/graph.h"
#include "tests/softgpu/cuda/driver/process.h"
#include "tests/softgpu/cuda/driver/submit.h"

using softgpu::Action;
using softgpu::Always;
using softgpu::Enter;
using softgpu::Executable;
using softgpu::Executables;
using softgpu::Graph;
using softgpu::Graphs;
using softgpu::Node;
using softgpu::Prepare;
using softgpu::UserObject;

namespace {

Node* NodeOf(CUgraphNode handle) { return reinterpret_cast<Node*>(handle); }

CUresult Add(CUgraphNode* out, CUgraph graph_handle, const CUgraphNode* dependencies, size_t count,
             CUgraphNodeType type, Prepare prepare) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Graph> graph = Graphs().Find(graph_handle);
  if (out == nullptr || graph == nullptr || (count != 0 && dependencies == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Node*> after;
  for (size_t i = 0; i < count; ++i) {
    if (dependencies[i] == nullptr || NodeOf(dependencies[i])->graph != graph.get()) return CUDA_ERROR_INVALID_VALUE;
    after.push_back(NodeOf(dependencies[i]));
  }
  *out = graph->Add(type, std::move(prepare), std::move(after))->handle();
  return CUDA_SUCCESS;
}

// The usual two-step protocol: without an array the count is told, with one it is filled and the rest set to NULL.
CUresult List(const std::vector<Node*>& nodes, CUgraphNode* out, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out != nullptr) {
    for (size_t i = 0; i < *count; ++i) out[i] = i < nodes.size() ? nodes[i]->handle() : nullptr;
  }
  *count = out == nullptr ? nodes.size() : std::min(*count, nodes.size());
  return CUDA_SUCCESS;
}

CUresult Instantiate(CUgraphExec* out, CUgraph handle) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Graph> graph = Graphs().Find(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_TRY(softgpu::GuardUnsafe());
  std::shared_ptr<Executable> executable = Executable::Make(*graph);
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUgraphExec>(Executables().Add(executable));
  return CUDA_SUCCESS;
}

CUresult Update(CUgraphExec exec_handle, CUgraph graph_handle, CUgraphExecUpdateResult* why) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Executable> executable = Executables().Find(exec_handle);
  std::shared_ptr<Graph> graph = Graphs().Find(graph_handle);
  if (executable == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Executable> fresh = Executable::Make(*graph);
  if (fresh == nullptr) return CUDA_ERROR_INVALID_VALUE;
  bool done = executable->TakeOver(*fresh);
  if (why != nullptr) *why = done ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  return done ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphCreate(CUgraph* out, unsigned int flags) {
  SOFTGPU_TRY(Enter());
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUgraph>(Graphs().Add(std::make_shared<Graph>()));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphClone(CUgraph* out, CUgraph handle) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Graph> graph = Graphs().Find(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUgraph>(Graphs().Add(graph->Clone()));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph handle) {
  SOFTGPU_TRY(Enter());
  return Graphs().Remove(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count) {
  return Add(out, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EMPTY, Always([] {}));
}

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                    const CUDA_HOST_NODE_PARAMS* parameters) {
  if (parameters == nullptr || parameters->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Action run = [host = *parameters] {
    softgpu::HostFunctionScope scope;
    host.fn(host.userData);
  };
  return Add(out, graph, dependencies, count, CU_GRAPH_NODE_TYPE_HOST, Always(run));
}

CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                           size_t count, CUevent handle) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<softgpu::Event> event = softgpu::Events().Find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Prepare prepare = [event]() -> Action { return [mark = event->Rearm()] { mark->Complete(); }; };
  return Add(out, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD, prepare);
}

CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                         CUevent handle) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<softgpu::Event> event = softgpu::Events().Find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Prepare prepare = [event]() -> Action {
    return [mark = event->mark()] {
      if (mark != nullptr) mark->Wait();
    };
  };
  return Add(out, graph, dependencies, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT, prepare);
}

CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                          size_t count, CUgraph child_handle) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Graph> child = Graphs().Find(child_handle);
  if (child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_TRY(Add(out, graph, dependencies, count, CU_GRAPH_NODE_TYPE_GRAPH, Always([] {})));
  NodeOf(*out)->child = child->Clone();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  SOFTGPU_TRY(Enter());
  if (Graphs().Find(handle) == nullptr || (count != 0 && (from == nullptr || to == nullptr))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) NodeOf(to[i])->after.push_back(NodeOf(from[i]));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                           const CUgraphEdgeData*, size_t count) {
  return cuGraphAddDependencies(handle, from, to, count);
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Graph> graph = Graphs().Find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Node*> all;
  for (const auto& node : graph->nodes) all.push_back(node.get());
  return List(all, nodes, count);
}

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Graph> graph = Graphs().Find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Node*> roots;
  for (const auto& node : graph->nodes) {
    if (node->after.empty()) roots.push_back(node.get());
  }
  return List(roots, nodes, count);
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Graph> graph = Graphs().Find(handle);
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Node*> sources;
  std::vector<Node*> targets;
  for (const auto& node : graph->nodes) {
    for (Node* before : node->after) {
      sources.push_back(before);
      targets.push_back(node.get());
    }
  }
  size_t target_count = *count;
  SOFTGPU_TRY(List(sources, from, count));
  return List(targets, to, &target_count);
}
CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                                    size_t* count) {
  SOFTGPU_TRY(cuGraphGetEdges(handle, from, to, count));
  if (data != nullptr) memset(data, 0, *count * sizeof(*data));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* dependencies, size_t* count) {
  SOFTGPU_TRY(Enter());
  return node == nullptr ? CUDA_ERROR_INVALID_VALUE : List(NodeOf(node)->after, dependencies, count);
}
CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* dependencies, CUgraphEdgeData* data,
                                               size_t* count) {
  SOFTGPU_TRY(cuGraphNodeGetDependencies(node, dependencies, count));
  if (data != nullptr) memset(data, 0, *count * sizeof(*data));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  SOFTGPU_TRY(Enter());
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = NodeOf(node)->type;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
  return Instantiate(out, graph);
}
CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
  return Instantiate(out, graph);
}
CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
  return Instantiate(out, graph);
}
CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = Instantiate(out, graph);
  parameters->hErrNode_out = nullptr;
  parameters->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphNode* culprit,
                                   CUgraphExecUpdateResult* why) {
  if (culprit != nullptr) *culprit = nullptr;
  return Update(executable, graph, why);
}
CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *info = {};
  return Update(executable, graph, &info->result);
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec handle, CUstream stream) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<softgpu::Stream> found;
  SOFTGPU_TRY(softgpu::FindStream(stream, &found));
  return Executables().Find(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// Into a capturing stream, a launch becomes one node that runs the whole executable.
CUresult CUDAAPI cuGraphLaunch(CUgraphExec handle, CUstream stream) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Executable> executable = Executables().Find(handle);
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return softgpu::Submit(
      stream, CU_GRAPH_NODE_TYPE_GRAPH, [executable] { return executable->PrepareLaunch(); }, false);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle) {
  SOFTGPU_TRY(Enter());
  return Executables().Remove(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy, unsigned int references,
                                    unsigned int flags) {
  SOFTGPU_TRY(Enter());
  if (out == nullptr || destroy == nullptr || references == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = reinterpret_cast<CUuserObject>(new UserObject{pointer, destroy, references});
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count) {
  SOFTGPU_TRY(Enter());
  if (object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  reinterpret_cast<UserObject*>(object)->Retain(count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count) {
  SOFTGPU_TRY(Enter());
  if (object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  reinterpret_cast<UserObject*>(object)->Release(count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph handle, CUuserObject object, unsigned int count, unsigned int flags) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Graph> graph = Graphs().Find(handle);
  if (graph == nullptr || object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  auto* user_object = reinterpret_cast<UserObject*>(object);
  if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0) user_object->Retain(count);
  graph->objects[user_object] += count;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph handle, CUuserObject object, unsigned int count) {
  SOFTGPU_TRY(Enter());
  std::shared_ptr<Graph> graph = Graphs().Find(handle);
  auto* user_object = reinterpret_cast<UserObject*>(object);
  if (graph == nullptr || graph->objects.count(user_object) == 0 || graph->objects[user_object] < count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  graph->objects[user_object] -= count;
  if (graph->objects[user_object] == 0) graph->objects.erase(user_object);
  user_object->Release(count);
  return CUDA_SUCCESS;
}

}  // extern "C"
