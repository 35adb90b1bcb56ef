// Graphs as they are captured or built, and their executable form.
#pragma once

#include <cuda.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/softgpu/cuda/driver/registry.h"
#include "tests/softgpu/cuda/driver/stream.h"

namespace softgpu {

class Graph;

// Called once a launch, by the launching thread; what it returns is run once, in its turn.
using Prepare = std::function<Action()>;

struct Node {
  CUgraphNodeType type;
  Prepare prepare;
  std::vector<Node*> after;
  Graph* graph;
  std::shared_ptr<Graph> child;  // of a child graph node that was added as such

  CUgraphNode handle() { return reinterpret_cast<CUgraphNode>(this); }
};

// Counts references; destroyed with the last.
struct UserObject {
  void* pointer;
  CUhostFn destroy;
  std::atomic<unsigned> references;

  void Retain(unsigned count) { references.fetch_add(count, std::memory_order_relaxed); }
  void Release(unsigned count);
};

using UserObjects = std::map<UserObject*, unsigned>;

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Node* Add(CUgraphNodeType type, Prepare prepare, std::vector<Node*> after);
  std::shared_ptr<Graph> Clone() const;

  CUgraph handle() { return reinterpret_cast<CUgraph>(this); }

  std::vector<std::unique_ptr<Node>> nodes;
  UserObjects objects;
};

// Nodes in chains ("lanes"): one runs where the launch runs, each further one on an internal stream, so that branches
// that were forked run side by side, as they must when they wait for one another.
class Executable : public std::enable_shared_from_this<Executable> {
 public:
  // NULL where the graph has a cycle.
  static std::shared_ptr<Executable> Make(const Graph& graph);
  ~Executable();

  // The action holds the executable; it returns when all nodes have run.
  Action PrepareLaunch();

  // Takes over what the other's nodes do, for launches from now on. False, and nothing changed, where the two differ in
  // the kinds of their nodes or in their edges.
  bool TakeOver(const Executable& other);

 private:
  struct Step {
    CUgraphNodeType type;
    Prepare prepare;
    std::vector<size_t> wait_for;  // steps of other lanes
  };
  struct Launch {
    std::vector<Action> actions;
    std::vector<std::unique_ptr<Mark>> done;
  };

  bool Order(const Graph& graph);
  void RunLane(Launch& launch, const std::vector<size_t>& lane);
  void Run(const std::shared_ptr<Launch>& launch);

  std::mutex changing_;  // guards steps_[].prepare
  std::vector<Step> steps_;
  std::vector<std::vector<size_t>> lanes_;
  std::vector<std::shared_ptr<Stream>> helpers_;  // one for each lane but the first
  UserObjects objects_;
  std::mutex running_;  // launches of one executable never overlap
};

Registry<Graph>& Graphs();
Registry<Executable>& Executables();

// A prepare that needs nothing done at launch.
Prepare Always(Action action);

}  // namespace softgpu
