#include "analyzer/player/mpi/communicators.h"

#include <algorithm>

namespace ncclwatch::player {
namespace {

using functions::Function;

const Communicator& At(const Stage& stage, int comm) {
  return stage.script.communicators[static_cast<std::size_t>(comm)];
}

MPI_Group GroupOf(MPI_Comm parent, const std::vector<int>& places) {
  MPI_Group all = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  MPI_Comm_group(parent, &all);
  MPI_Group_incl(all, static_cast<int>(places.size()), places.data(), &group);
  MPI_Group_free(&all);
  return group;
}

// Its index tells it from others that are made of the same ranks at once.
MPI_Comm OfMembers(const Stage& stage, int index) {
  constexpr int kTags = 30000;
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Group group = GroupOf(MPI_COMM_WORLD, At(stage, index).members);
  MPI_Comm_create_group(MPI_COMM_WORLD, group, index % kTags, &made);
  MPI_Group_free(&group);
  return made;
}

std::vector<int> PlacesIn(const Communicator& parent, const Communicator& child) {
  std::vector<int> places;
  for (const int member : child.members) {
    const auto at = std::find(parent.members.begin(), parent.members.end(), member);
    if (at != parent.members.end()) places.push_back(static_cast<int>(at - parent.members.begin()));
  }
  return places;
}

MPI_Comm Made(Stage& stage, const Call& call, MPI_Comm parent) {
  const Communicator* const wanted = call.made < 0 ? nullptr : &At(stage, call.made);
  MPI_Comm made = MPI_COMM_NULL;
  switch (call.as.function) {
    case Function::MPI_Comm_dup:
    case Function::MPI_Comm_dup_with_info:
    case Function::MPI_Comm_idup:
    case Function::MPI_Comm_idup_with_info: MPI_Comm_dup(parent, &made); return made;
    case Function::MPI_Comm_create: {
      MPI_Group group = GroupOf(parent, wanted ? PlacesIn(stage.Of(call), *wanted) : std::vector<int>());
      MPI_Comm_create(parent, group, &made);
      MPI_Group_free(&group);
      return made;
    }
    case Function::MPI_Comm_create_group: return MPI_COMM_NULL;  // made when the list began
    case Function::MPI_Intercomm_create:
    case Function::MPI_Intercomm_merge: stage.listener.NotPlayed(call); return MPI_COMM_NULL;
    case Function::MPI_Comm_split:
      MPI_Comm_split(parent, wanted ? wanted->color : MPI_UNDEFINED, wanted ? wanted->own : 0, &made);
      return made;
    default:  // of those that a split makes likewise, a grid among them
      MPI_Comm_split(parent, wanted ? call.made : MPI_UNDEFINED, wanted ? wanted->own : 0, &made);
      return made;
  }
}

}  // namespace

void BeginCommunicators(Stage& stage) {
  stage.comms.assign(stage.script.communicators.size(), MPI_COMM_NULL);
  for (std::size_t i = 0; i < stage.comms.size(); ++i) {
    const Communicator& one = stage.script.communicators[i];
    if (one.own < 0) continue;
    if (one.is == Communicator::Is::kWorld) stage.comms[i] = MPI_COMM_WORLD;
    if (one.is == Communicator::Is::kSelf) stage.comms[i] = MPI_COMM_SELF;
    if (one.is == Communicator::Is::kOfMembers) stage.comms[i] = OfMembers(stage, static_cast<int>(i));
  }
}

void MakeCommunicator(Stage& stage, const Call& call) {
  const MPI_Comm parent = stage.On(call);
  if (parent == MPI_COMM_NULL) return stage.listener.NotPlayed(call);
  MPI_Comm made = MPI_COMM_NULL;
  stage.pace.Timed([&] { made = Made(stage, call, parent); });
  if (call.made >= 0 && made != MPI_COMM_NULL) stage.comms[static_cast<std::size_t>(call.made)] = made;
}

void FreeCommunicator(Stage& stage, const Call& call) {
  const MPI_Comm comm = stage.On(call);
  if (comm == MPI_COMM_NULL || comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF) return;
  stage.pace.Timed([&] { MPI_Comm_free(&stage.comms[static_cast<std::size_t>(call.comm)]); });
}

}  // namespace ncclwatch::player
