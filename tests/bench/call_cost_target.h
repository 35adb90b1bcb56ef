// The functions that the cost of a call is measured with, in libraries of their own so that calls go through the PLT.
#pragma once

#include <nccl.h>

extern "C" {
// Does what the ncclAllReduce behind the wrapper does.
ncclResult_t BareAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
// Two stamps and one record, and nothing else.
ncclResult_t FloorAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
}
