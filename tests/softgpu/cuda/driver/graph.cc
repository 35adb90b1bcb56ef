#include "tests/softgpu/cuda/driver/graph.h"

#include <algorithm>
#include <unordered_map>

namespace softgpu {

void UserObject::Release(unsigned count) {
  if (references.fetch_sub(count, std::memory_order_acq_rel) == count) {
    if (destroy != nullptr) destroy(pointer);
    delete this;
  }
}

Graph::~Graph() {
  for (auto& [object, count] : objects) object->Release(count);
}

Node* Graph::Add(CUgraphNodeType type, Prepare prepare, std::vector<Node*> after) {
  nodes.push_back(std::make_unique<Node>(Node{type, std::move(prepare), std::move(after), this, nullptr}));
  return nodes.back().get();
}

std::shared_ptr<Graph> Graph::Clone() const {
  auto clone = std::make_shared<Graph>();
  std::unordered_map<const Node*, Node*> twin;
  for (const auto& node : nodes) {
    Node* copy = clone->Add(node->type, node->prepare, {});
    copy->child = node->child;
    twin[node.get()] = copy;
  }
  for (const auto& node : nodes) {
    for (Node* before : node->after) twin[node.get()]->after.push_back(twin[before]);
  }
  clone->objects = objects;
  for (auto& [object, count] : clone->objects) object->Retain(count);
  return clone;
}

std::shared_ptr<Executable> Executable::Make(const Graph& graph) {
  auto executable = std::make_shared<Executable>();
  if (!executable->Order(graph)) return nullptr;
  for (size_t i = 1; i < executable->lanes_.size(); ++i) {
    executable->helpers_.push_back(std::make_shared<Stream>(nullptr, 0, 0, Stream::Kind::kInternal));
  }
  executable->objects_ = graph.objects;
  for (auto& [object, count] : executable->objects_) object->Retain(count);
  return executable;
}

Executable::~Executable() {
  for (const auto& helper : helpers_) helper->Retire();
  for (auto& [object, count] : objects_) object->Release(count);
}

// Sorts the nodes so that each comes after those it waits for, and continues the lane of one of these where it can.
bool Executable::Order(const Graph& graph) {
  std::unordered_map<const Node*, size_t> missing;
  std::unordered_map<const Node*, std::vector<Node*>> next;
  std::vector<Node*> ready;
  for (const auto& node : graph.nodes) {
    missing[node.get()] = node->after.size();
    for (Node* before : node->after) next[before].push_back(node.get());
    if (node->after.empty()) ready.push_back(node.get());
  }
  std::unordered_map<const Node*, size_t> step_of;
  std::unordered_map<size_t, size_t> lane_ending_in;  // last step -> lane
  for (size_t i = 0; i < ready.size(); ++i) {
    Node* node = ready[i];
    size_t step = steps_.size();
    size_t lane = lanes_.size();
    for (Node* before : node->after) {
      auto ending = lane_ending_in.find(step_of[before]);
      if (ending == lane_ending_in.end()) continue;
      lane = ending->second;
      lane_ending_in.erase(ending);
      break;
    }
    if (lane == lanes_.size()) lanes_.emplace_back();
    Step made{node->type, node->prepare, {}};
    if (node->child != nullptr) {
      std::shared_ptr<Executable> child = Make(*node->child);
      if (child == nullptr) return false;
      made.prepare = [child] { return child->PrepareLaunch(); };
    }
    size_t own_before = lanes_[lane].empty() ? step : lanes_[lane].back();
    for (Node* before : node->after) {
      if (step_of[before] != own_before) made.wait_for.push_back(step_of[before]);
    }
    steps_.push_back(std::move(made));
    lanes_[lane].push_back(step);
    lane_ending_in[step] = lane;
    step_of[node] = step;
    for (Node* after : next[node]) {
      if (--missing[after] == 0) ready.push_back(after);
    }
  }
  return steps_.size() == graph.nodes.size();
}

Action Executable::PrepareLaunch() {
  auto launch = std::make_shared<Launch>();
  std::lock_guard lock(changing_);
  for (const Step& step : steps_) {
    launch->actions.push_back(step.prepare());
    launch->done.push_back(std::make_unique<Mark>());
  }
  return [self = shared_from_this(), launch] { self->Run(launch); };
}

bool Executable::TakeOver(const Executable& other) {
  auto alike = [](const Step& a, const Step& b) { return a.type == b.type && a.wait_for == b.wait_for; };
  if (lanes_ != other.lanes_ || !std::equal(steps_.begin(), steps_.end(), other.steps_.begin(), alike)) return false;
  std::lock_guard lock(changing_);
  for (size_t i = 0; i < steps_.size(); ++i) steps_[i].prepare = other.steps_[i].prepare;
  return true;
}

void Executable::RunLane(Launch& launch, const std::vector<size_t>& lane) {
  for (size_t step : lane) {
    for (size_t other : steps_[step].wait_for) launch.done[other]->Wait();
    launch.actions[step]();
    launch.done[step]->Complete();
  }
}

void Executable::Run(const std::shared_ptr<Launch>& launch) {
  std::lock_guard lock(running_);
  for (size_t i = 1; i < lanes_.size(); ++i) {
    helpers_[i - 1]->Push(
        {.run = [self = shared_from_this(), launch, i] { self->RunLane(*launch, self->lanes_[i]); }, .after = {}});
  }
  if (!lanes_.empty()) RunLane(*launch, lanes_[0]);
  for (const auto& mark : launch->done) mark->Wait();
}

Registry<Graph>& Graphs() {
  static Registry<Graph>& graphs = *new Registry<Graph>;
  return graphs;
}

Registry<Executable>& Executables() {
  static Registry<Executable>& executables = *new Registry<Executable>;
  return executables;
}

Prepare Always(Action action) {
  return [action = std::move(action)] { return action; };
}

}  // namespace softgpu
