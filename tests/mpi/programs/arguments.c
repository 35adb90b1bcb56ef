// Calls whose own arguments are wrong. Each program here may die of it, or go on as if nothing had been.
#include "common.h"

static int in[64], out[64];
static double real[8], sum[8], sums[64];

static void peer_out_of_range(void) {
  if (rank != odd) return;
  planted();
  MPI_Send(out, 1, MPI_INT, size + 3, 70, ring);
}

static void negative_tag(void) {
  if (rank != odd) return;
  planted();
  MPI_Send(out, 1, MPI_INT, partner, -5, ring);
}

static void negative_count(void) {
  if (rank != odd) return;
  planted();
  MPI_Bcast(out, -1, MPI_INT, 0, ring);
}

static void root_out_of_range(void) {
  if (rank != odd) return;
  planted();
  MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, size, ring);
}

static void null_communicator(void) {
  if (rank != odd) return;
  planted();
  MPI_Barrier(MPI_COMM_NULL);
}

static void no_communicator(void) {
  if (rank != odd) return;
  planted();
  MPI_Barrier((MPI_Comm)0);
}

static void null_flag(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank != odd) return;
  planted();
  MPI_Test(&request, NULL, MPI_STATUS_IGNORE);
}

static void unlike_own_part(void) {
  planted();
  MPI_Allgather(in, 1, MPI_INT, sums, 1, MPI_DOUBLE, ring);
}

static void null_sent(void) {
  if (rank == odd) planted();
  MPI_Allgather(rank == odd ? NULL : in, 1, MPI_INT, out, 1, MPI_INT, ring);
}

static void freed_communicator(void) {
  MPI_Comm mine, copy;
  MPI_Comm_dup(ring, &mine);
  copy = mine;
  MPI_Comm_free(&mine);
  if (rank != odd) return;
  planted();
  MPI_Barrier(copy);
}

static void null_type(void) {
  if (rank != odd) return;
  planted();
  MPI_Send(out, 1, MPI_DATATYPE_NULL, partner, 71, ring);
}

static void uncommitted_type(void) {
  MPI_Datatype column;
  MPI_Type_vector(4, 1, 4, MPI_INT, &column);
  if (rank == odd) {
    planted();
    MPI_Send(out, 1, column, partner, 72, ring);
  } else if (rank == partner) {
    MPI_Recv(in, 4, MPI_INT, odd, 72, ring, MPI_STATUS_IGNORE);
  }
  MPI_Type_free(&column);
}

static void freed_type(void) {
  MPI_Datatype row, copy;
  MPI_Type_contiguous(4, MPI_INT, &row);
  MPI_Type_commit(&row);
  copy = row;
  MPI_Type_free(&row);
  if (rank != odd) return;
  planted();
  MPI_Send(out, 1, copy, partner, 73, ring);
}

static void null_buffer(void) {
  if (rank != odd) return;
  planted();
  MPI_Send(NULL, 4, MPI_INT, partner, 74, ring);
}

static void same_buffer(void) {
  if (rank == odd) planted();
  MPI_Allreduce(rank == odd ? out : in, out, 8, MPI_INT, MPI_SUM, ring);
}

static void overlapping_exchange(void) {
  if (rank == odd) planted();
  if (rank == odd || rank == partner)
    MPI_Sendrecv(in, 16, MPI_INT, odd + partner - rank, 75, rank == odd ? in + 8 : out, 16, MPI_INT,
                 odd + partner - rank, 75, ring, MPI_STATUS_IGNORE);
}

static void null_operator(void) {
  if (rank != odd) return;
  planted();
  MPI_Allreduce(in, out, 1, MPI_INT, MPI_OP_NULL, ring);
}

static void bits_of_reals(void) {
  planted();
  MPI_Allreduce(real, sum, 8, MPI_DOUBLE, MPI_BAND, ring);
}

static void free_predefined(void) {
  MPI_Datatype type = MPI_INT;
  if (rank != odd) return;
  planted();
  MPI_Type_free(&type);
}

static void free_twice(void) {
  MPI_Comm mine;
  MPI_Comm_dup(MPI_COMM_SELF, &mine);
  MPI_Comm_free(&mine);
  if (rank != odd) return;
  planted();
  MPI_Comm_free(&mine);
}

static void negative_color(void) {
  MPI_Comm mine;
  if (rank == odd) planted();
  MPI_Comm_split(ring, rank == odd ? -7 : 0, rank, &mine);
  MPI_Comm_free(&mine);
}

static void negative_window(void) {
  static int memory[4];
  MPI_Win window;
  if (rank == odd) planted();
  MPI_Win_create(memory, rank == odd ? -8 : 8, 1, MPI_INFO_NULL, ring, &window);
  MPI_Win_free(&window);
}

static void gathered_from_where_it_goes(void) {
  if (rank == odd) planted();
  MPI_Gather(rank == odd ? out + 1 : in, 2, MPI_INT, out, 2, MPI_INT, odd, ring);
}

static void negative_block(void) {
  MPI_Datatype type;
  if (rank != odd) return;
  planted();
  MPI_Type_vector(2, -1, 2, MPI_INT, &type);
}

static void negative_part(void) {
  int counts[64], places[64];
  for (int i = 0; i < size; ++i) counts[i] = 1, places[i] = i;
  if (rank == odd) planted();
  if (rank == odd) counts[partner] = -1;
  MPI_Gatherv(in, 1, MPI_INT, out, counts, places, MPI_INT, odd, ring);
}

static void in_place_of_a_broadcast(void) {
  if (rank == odd) planted();
  MPI_Bcast(rank == odd ? MPI_IN_PLACE : out, 2, MPI_INT, partner, ring);
}

static void started_null(void) {
  MPI_Request none = MPI_REQUEST_NULL;
  if (rank != odd) return;
  planted();
  MPI_Start(&none);
}

static void null_group(void) {
  MPI_Comm mine;
  if (rank == odd) planted();
  MPI_Comm_create(ring, rank == odd ? MPI_GROUP_NULL : MPI_GROUP_EMPTY, &mine);
}

static void group_rank(void) {
  int ranks[2] = {0, size};
  if (rank != odd) return;
  planted();
  MPI_Group made = group_of(2, ranks);
  MPI_Group_free(&made);
}

static void group_rank_twice(void) {
  int ranks[3] = {0, 1, 0};
  if (rank != odd) return;
  planted();
  MPI_Group made = group_of(3, ranks);
  MPI_Group_free(&made);
}

static void group_range(void) {
  MPI_Group whole, made;
  int range[2][3] = {{0, size - 1, 1}, {1, 1, 1}};
  if (rank != odd) return;
  planted();
  MPI_Comm_group(ring, &whole);
  MPI_Group_range_excl(whole, 2, range, &made);
  MPI_Group_free(&whole);
}

static void grid_of(int first, int second) {
  int dims[2] = {first, second}, periods[2] = {0, 0};
  MPI_Comm made = MPI_COMM_NULL;
  if (rank == odd) planted();
  MPI_Cart_create(ring, 2, dims, periods, 0, &made);
  if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
}

static void grid_too_large(void) { grid_of(size, rank == odd ? 2 : 1); }
static void grid_negative(void) { grid_of(size, rank == odd ? -1 : 1); }

static void graph_node(void) {
  int index[16], edges[16];
  MPI_Comm made = MPI_COMM_NULL;
  for (int i = 0; i < size; ++i) {
    index[i] = i + 1;
    edges[i] = i;
  }
  if (rank == odd) {
    planted();
    edges[0] = size;
  }
  MPI_Graph_create(ring, size, index, edges, 0, &made);
  if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
}

static void distributed_node(void) {
  int degree = 1, to = rank == odd ? size : rank;
  MPI_Comm made = MPI_COMM_NULL;
  if (rank == odd) planted();
  MPI_Dist_graph_create(ring, 1, &rank, &degree, &to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made);
  if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
}

static void null_message(void) {
  MPI_Message message = MPI_MESSAGE_NULL;
  if (rank != odd) return;
  planted();
  MPI_Mrecv(in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
}

static void cancel_null(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank != odd) return;
  planted();
  MPI_Cancel(&request);
}

static void attached_twice(void) {
  static char room[2][4096 + MPI_BSEND_OVERHEAD];
  void* taken;
  int bytes;
  if (rank != odd) return;
  MPI_Buffer_attach(room[0], sizeof room[0]);
  planted();
  MPI_Buffer_attach(room[1], sizeof room[1]);
  MPI_Buffer_detach(&taken, &bytes);
}

static void no_room_attached(void) {
  if (rank == partner) MPI_Recv(in, 64, MPI_INT, odd, 70, ring, MPI_STATUS_IGNORE);
  if (rank != odd) return;
  planted();
  MPI_Bsend(out, 64, MPI_INT, partner, 70, ring);
}

static void and_of_reals(void) {
  if (rank == odd) planted();
  MPI_Allreduce(real, sum, 2, MPI_DOUBLE, MPI_LAND, ring);
}

static void negative_blocks(void) {
  int lengths[3] = {1, -2, 1}, places[3] = {0, 4, 8};
  MPI_Datatype type;
  if (rank != odd) return;
  planted();
  MPI_Type_indexed(3, lengths, places, MPI_INT, &type);
}

static void free_type_twice(void) {
  MPI_Datatype type, copy;
  MPI_Type_contiguous(3, MPI_INT, &type);
  copy = type;
  MPI_Type_free(&type);
  if (rank != odd) return;
  planted();
  MPI_Type_free(&copy);
}

static void free_group_twice(void) {
  const int members[1] = {0};
  MPI_Group group = group_of(1, members), copy = group;
  MPI_Group_free(&group);
  if (rank != odd) return;
  planted();
  MPI_Group_free(&copy);
}

static void sum_of_made_type(void) {
  MPI_Datatype three;
  MPI_Type_contiguous(3, MPI_DOUBLE, &three);
  MPI_Type_commit(&three);
  if (rank == odd) planted();
  MPI_Allreduce(real, sum, 1, three, MPI_SUM, ring);
  MPI_Type_free(&three);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"peer_out_of_range", peer_out_of_range},
      {"negative_tag", negative_tag},
      {"negative_count", negative_count},
      {"root_out_of_range", root_out_of_range},
      {"null_communicator", null_communicator},
      {"no_communicator", no_communicator},
      {"null_flag", null_flag},
      {"unlike_own_part", unlike_own_part},
      {"null_sent", null_sent},
      {"freed_communicator", freed_communicator},
      {"null_type", null_type},
      {"uncommitted_type", uncommitted_type},
      {"freed_type", freed_type},
      {"null_buffer", null_buffer},
      {"same_buffer", same_buffer},
      {"overlapping_exchange", overlapping_exchange},
      {"null_operator", null_operator},
      {"bits_of_reals", bits_of_reals},
      {"free_predefined", free_predefined},
      {"free_twice", free_twice},
      {"negative_color", negative_color},
      {"negative_window", negative_window},
      {"gathered_from_where_it_goes", gathered_from_where_it_goes},
      {"negative_block", negative_block},
      {"negative_part", negative_part},
      {"in_place_of_a_broadcast", in_place_of_a_broadcast},
      {"started_null", started_null},
      {"null_group", null_group},
      {"group_rank", group_rank},
      {"group_rank_twice", group_rank_twice},
      {"group_range", group_range},
      {"grid_too_large", grid_too_large},
      {"grid_negative", grid_negative},
      {"graph_node", graph_node},
      {"distributed_node", distributed_node},
      {"null_message", null_message},
      {"cancel_null", cancel_null},
      {"attached_twice", attached_twice},
      {"no_room_attached", no_room_attached},
      {"sum_of_made_type", sum_of_made_type},
      {"and_of_reals", and_of_reals},
      {"negative_blocks", negative_blocks},
      {"free_type_twice", free_type_twice},
      {"free_group_twice", free_group_twice},
  };
  return RUN_FAULTY(argc, argv, cases);
}
