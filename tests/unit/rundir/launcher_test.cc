#include "watchdog/rundir/launcher.h"
#include "watchdog/rundir/process.h"
#include "watchdog/rundir/slurm_tasks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <vector>

namespace ncclwatch::rundir {
namespace {

using Variables = std::map<std::string, std::string>;

Variables current;
const char* Get(const char* name) {
  const auto found = current.find(name);
  return found == current.end() ? nullptr : found->second.c_str();
}
Launch From(Variables variables, const std::string& job = "") {
  current = std::move(variables);
  settings::Settings settings;
  settings.job = job;
  return FromLauncher(settings, Get);
}

const Variables kTorchrun = {{"TORCHELASTIC_RUN_ID", "none"},
                             {"RANK", "3"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "h"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"}};

TEST(Launcher, Torchrun) {
  const Launch launch = From(kTorchrun);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.world_size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_world_size, 4);
  EXPECT_EQ(launch.attempt, 2u);
  EXPECT_EQ(launch.master_address, "h");
  EXPECT_EQ(launch.master_port, 29500);
  EXPECT_TRUE(launch.own_launcher);
  EXPECT_TRUE(launch.job.starts_with("none-"));
}

TEST(Launcher, ARestartMayChangeThePortButNotTheJob) {
  Variables later = kTorchrun;
  later["TORCHELASTIC_RESTART_COUNT"] = "3";
  later["MASTER_PORT"] = "40000";
  EXPECT_EQ(From(kTorchrun).job, From(later).job);
}

TEST(Launcher, EveryOtherOne) {
  const Launch slurm = From({{"SLURM_JOB_ID", "77"},
                             {"SLURM_STEP_ID", "1"},
                             {"SLURM_PROCID", "2"},
                             {"SLURM_NTASKS", "4"},
                             {"SLURM_LOCALID", "0"},
                             {"SLURM_RESTART_COUNT", "1"}});
  EXPECT_EQ(slurm.rank, 2);
  EXPECT_EQ(slurm.world_size, 4);
  EXPECT_EQ(slurm.attempt, 1u);
  EXPECT_TRUE(slurm.job.starts_with("slurm-77.1-"));

  const Launch openmpi = From({{"OMPI_COMM_WORLD_RANK", "1"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                               {"PMIX_NAMESPACE", "12/../34"}});
  EXPECT_EQ(openmpi.rank, 1);
  EXPECT_EQ(openmpi.local_world_size, 2);
  EXPECT_EQ(openmpi.job.find('/'), std::string::npos);

  const Launch mpich = From({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}});
  EXPECT_EQ(mpich.rank, 0);
  EXPECT_EQ(mpich.world_size, 2);

  const Launch plain = From({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1234"}});
  EXPECT_EQ(plain.rank, 0);
  EXPECT_FALSE(plain.own_launcher);

  const Launch none = From({});
  EXPECT_EQ(none.rank, -1);
  EXPECT_TRUE(none.job.starts_with("session-"));
}

const Variables kSlurm = {{"SLURM_JOB_ID", "77"},        {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "3"},
                          {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NTASKS", "4"},  {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
                          {"SLURM_NODEID", "1"},         {"SLURM_LOCALID", "0"}, {"SLURM_RESTART_COUNT", "2"}};

TEST(Launcher, SlurmSaysHowManyTasksANodeHas) {
  EXPECT_EQ(From(kSlurm).local_world_size, 1);
  Variables asked = kSlurm;
  asked["SLURM_NTASKS_PER_NODE"] = "3";  // what was asked for; the last node has fewer
  EXPECT_EQ(From(asked).local_world_size, 1);
  asked.erase("SLURM_STEP_TASKS_PER_NODE");
  EXPECT_EQ(From(asked).local_world_size, 3);
}

TEST(Launcher, SlurmsListsOfTasks) {
  EXPECT_EQ(TasksOfNode("4", 0), 4);
  EXPECT_EQ(TasksOfNode("4(x2),3", 1), 4);
  EXPECT_EQ(TasksOfNode("4(x2),3", 2), 3);
  EXPECT_EQ(TasksOfNode("1,2(x1000)", 1000), 2);
  for (const char* list : {"", ",", "x", "4(x2", "4(x", "4(x0)", "0", "-1", "99999999999", "4(x2),", "4 4"})
    EXPECT_EQ(TasksOfNode(list, 2), std::nullopt) << list;
  EXPECT_EQ(TasksOfNode("4(x2),3", 3), std::nullopt);
  EXPECT_EQ(TasksOfNode("4", -1), std::nullopt);
}

TEST(Launcher, AScriptThatSetsRankUnderSrunLeavesTheJobSlurms) {
  for (const Variables& more : {Variables{{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "29500"}},
                                Variables{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_JOBID", "77.0"}}}) {
    Variables both = kSlurm;
    both.insert(more.begin(), more.end());
    const Launch launch = From(both);
    EXPECT_TRUE(launch.job.starts_with("slurm-77.0-"));
    EXPECT_EQ(launch.attempt, 2u);
    EXPECT_EQ(launch.local_world_size, 1);
  }
  Variables other = kSlurm;  // one task a node, which starts its ranks itself
  other.insert({{"RANK", "5"}, {"WORLD_SIZE", "16"}, {"LOCAL_WORLD_SIZE", "4"}, {"MASTER_PORT", "1"}});
  EXPECT_EQ(From(other).rank, 5);
  EXPECT_TRUE(From(other).job.starts_with("job-1-"));
}

TEST(Launcher, BatchScriptsAndPodsAreNotRanks) {
  // A Slurm batch script has PROCID and NTASKS without being a step.
  EXPECT_EQ(From({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).rank, -1);
  // A pod's own RANK=0 WORLD_SIZE=1 must not make every rank of mpirun rank 0.
  EXPECT_EQ(
      From({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}}).rank, 3);
}

TEST(Launcher, ValuesThatMakeNoSenseAreNoRank) {
  EXPECT_EQ(From({{"RANK", "4"}, {"WORLD_SIZE", "4"}}).rank, -1);
  EXPECT_EQ(From({{"RANK", "-1"}, {"WORLD_SIZE", "4"}}).rank, -1);
  EXPECT_EQ(From({{"RANK", "x"}, {"WORLD_SIZE", "4"}}).rank, -1);
}

TEST(Launcher, AUsersNameIsMadeSafeAndTellsJobsApart) {
  const Launch launch = From(kTorchrun, "../../etc/pass wd");
  EXPECT_EQ(launch.job.find('/'), std::string::npos);
  EXPECT_NE(launch.job[0], '.');
  EXPECT_NE(From(kTorchrun, "a").job, From(kTorchrun, "b").job);
  Variables other_port = kTorchrun;
  other_port["MASTER_PORT"] = "1";
  EXPECT_EQ(From(kTorchrun, "a").job, From(other_port, "a").job);
}

TEST(Launcher, AnAncestorThatDoesNotAnswerIsTakenForTheLauncher) {
  int asked = 0;
  const Patience nobody = [&asked](const std::function<void()>&) { return ++asked, false; };
  const Place place{Launcher::kTorchrun, 0, 2};
  const Instance instance = InstanceOf(getpid(), place, nobody);
  EXPECT_EQ(instance.pid, getppid());
  EXPECT_EQ(instance.start_time, StatOf(getppid())->start_time);
  EXPECT_GT(asked, 0);
}

// Runs `lines` of a shell script in which $SELF prints its job; the printed lines.
std::vector<std::string> Jobs(const std::string& script) {
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) return {};
  setenv("SELF",
         (std::string(self) + " --gtest_filter=Launcher.DISABLED_PrintsItsJob "
                              "--gtest_also_run_disabled_tests 2>&1 | grep ^JOB=")
             .c_str(),
         1);
  setenv("FORKS",
         (std::string(self) + " --gtest_filter=Launcher.DISABLED_ForksARank "
                              "--gtest_also_run_disabled_tests 2>&1 | grep ^JOB=")
             .c_str(),
         1);
  FILE* pipe = popen(("env -u RANK -u WORLD_SIZE sh -c '" + script + "'").c_str(), "r");
  std::vector<std::string> lines;
  char line[512];
  while (pipe && fgets(line, sizeof(line), pipe)) lines.push_back(line);
  if (pipe) pclose(pipe);
  return lines;
}

// Not a test of its own: what the scripts below run.
TEST(Launcher, DISABLED_PrintsItsJob) {
  printf("JOB=%s\n", FromLauncher({}, [](const char* name) -> const char* { return getenv(name); }).job.c_str());
}

// Not a test of its own: a program that says only after its start which rank it is, and forks another.
TEST(Launcher, DISABLED_ForksARank) {
  const auto say = [](const char* rank) {
    setenv("RANK", rank, 1);
    setenv("WORLD_SIZE", "2", 1);
    const std::string job = FromLauncher({}, [](const char* name) -> const char* { return getenv(name); }).job + "\n";
    dprintf(STDOUT_FILENO, "JOB=%s", job.c_str());
  };
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) say("1");
    if (grandchild > 0) waitpid(grandchild, nullptr, 0);
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  say("0");
}

TEST(Launcher, ForkedRanksAgreeWithTheRankThatForkedThem) {
  for (const char* script :
       {"sh -c \"$FORKS\"", "RANK=0 WORLD_SIZE=2 sh -c \"$FORKS\"", "TORCHELASTIC_RUN_ID=x sh -c \"$FORKS\""}) {
    const std::vector<std::string> jobs = Jobs(script);
    ASSERT_EQ(jobs.size(), 2u) << script;
    EXPECT_EQ(jobs[0], jobs[1]) << script;
  }
}

TEST(Launcher, RanksOfOneStartAgreeEvenThroughWrappers) {
  const std::vector<std::string> jobs = Jobs(
      "export WORLD_SIZE=3 MASTER_PORT=1; RANK=0 sh -c \"$SELF\"; RANK=1 sh -c \"sh -c \\\"$SELF\\\"\"; "
      "RANK=2 sh -c \"sleep 0; $SELF; true\"");
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs[0], jobs[1]);
  EXPECT_EQ(jobs[0], jobs[2]);
}

TEST(Launcher, TwoStartsBothNamedNoneDiffer) {
  const std::string start =
      "sh -c \"export TORCHELASTIC_RUN_ID=none RANK=0 WORLD_SIZE=1 MASTER_PORT=29500; sh -c \\\"$SELF\\\"; true\"; ";
  const std::vector<std::string> jobs = Jobs(start + start);
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_NE(jobs[0], jobs[1]);
}

}  // namespace
}  // namespace ncclwatch::rundir
