// One process of a random program: random_program --seed N [--describe]. The process's number is RANK.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "actor.h"
#include "tools.h"

int main(int argc, char** argv) {
  std::uint64_t seed = 0;
  bool describe = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--seed" && i + 1 < argc) seed = std::strtoull(argv[++i], nullptr, 0);
    if (argument == "--describe") describe = true;
  }
  using random_program::Actor;
  const random_program::Plan plan = random_program::Make(seed);
  if (describe) {
    std::size_t steps = 0;
    for (const random_program::Lane& lane : plan.lanes) steps += lane.steps.size();
    std::printf("{\"processes\": %d, \"ranks_per_process\": %d, \"lanes\": %zu, \"steps\": %zu}\n", plan.processes,
                plan.ranks_per_process, plan.lanes.size(), steps);
    return 0;
  }
  const char* process = std::getenv("RANK");
  if (!process || cudaSetDevice(0) != cudaSuccess) random_program::Die("no RANK or no device");
  std::vector<Actor> actors;
  for (int i = 0; i < plan.ranks_per_process; ++i)
    for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane)
      actors.emplace_back(plan.lanes[lane], static_cast<int>(lane), std::atoi(process) * plan.ranks_per_process + i,
                          seed);
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < actors.size(); ++i) threads.emplace_back([&actors, i] { actors[i].Run(); });
  actors[0].Run();
  for (std::thread& thread : threads) thread.join();
  for (Actor& actor : actors) {
    std::printf("rank %d lane %d hash %016lx\n", actor.rank(), actor.lane(), static_cast<unsigned long>(actor.hash()));
    actor.Free();
  }
  return 0;
}
