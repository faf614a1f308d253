// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/mpi/roll_call.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace foreload::mpi {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPresentTag = 31'993;
constexpr int kMissingTag = 31'994;
// How much longer the others wait than rank 0, so that its answer reaches them.
constexpr std::chrono::seconds kGrace{5};

void give_up(std::vector<MPI_Request>& requests) {
  for (MPI_Request& request : requests) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

tl::unexpected<Error> missing_ranks(int rank, int ranks, std::chrono::milliseconds timeout,
                                    const std::string& who) {
  return fail(
      ErrorKind::cancelled,
      fmt::format("rank {} waited {:.1f} s for all {} ranks of the MPI job to join foreload: {} "
                  "missing. Check that every rank makes a loader, or set a longer join "
                  "timeout",
                  rank, std::chrono::duration<double>(timeout).count(), ranks, who));
}

// Rank 0: who did not report in time, one number a rank (1: missing).
std::vector<char> collect(int ranks, Clock::time_point deadline) {
  std::vector<char> missing(ranks, 1);
  missing[0] = 0;
  std::vector<char> reports(ranks);
  std::vector<MPI_Request> requests(ranks, MPI_REQUEST_NULL);
  for (int r = 1; r < ranks; ++r) {
    MPI_Irecv(&reports[r], 1, MPI_CHAR, r, kPresentTag, MPI_COMM_WORLD, &requests[r]);
  }
  look_until(deadline, [&] {
    bool all = true;
    for (int r = 1; r < ranks; ++r) {
      if (missing[r] == 0) continue;
      int done = 0;
      MPI_Test(&requests[r], &done, MPI_STATUS_IGNORE);
      missing[r] = done == 0 ? 1 : 0;
      all = all && done != 0;
    }
    return all;
  });
  give_up(requests);
  return missing;
}

std::string names(const std::vector<char>& missing) {
  std::string text;
  size_t count = 0;
  for (size_t r = 0; r < missing.size(); ++r) {
    if (missing[r] == 0) continue;
    if (++count <= 16) text += fmt::format("{}{}", text.empty() ? "" : ", ", r);
  }
  return text + (count > 16   ? fmt::format(" and {} more are", count - 16)
                 : count == 1 ? " is"
                              : " are");
}

}  // namespace

Result<MPI_Comm> join_all(std::chrono::milliseconds timeout) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto deadline = Clock::now() + timeout;
  std::vector<char> missing(ranks);
  if (rank == 0) {
    missing = collect(ranks, deadline);
    for (int r = 1; r < ranks; ++r) {
      // Small enough to leave at once; the one that is missing gets it if it comes late.
      MPI_Request request = MPI_REQUEST_NULL;
      auto* const copy = new std::vector<char>(missing);
      MPI_Isend(copy->data(), ranks, MPI_CHAR, r, kMissingTag, MPI_COMM_WORLD, &request);
      int done = 0;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done != 0) {
        delete copy;
      } else {
        MPI_Request_free(&request);  // and the copy stays: MPI may read it for as long as it likes
      }
    }
  } else {
    const char present = 1;
    std::vector<MPI_Request> requests(2, MPI_REQUEST_NULL);
    MPI_Isend(&present, 1, MPI_CHAR, 0, kPresentTag, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(missing.data(), ranks, MPI_CHAR, 0, kMissingTag, MPI_COMM_WORLD, &requests[1]);
    const auto answered = [&] {
      int done = 0;
      MPI_Testall(2, requests.data(), &done, MPI_STATUSES_IGNORE);
      return done != 0;
    };
    if (!look_until(deadline + kGrace, answered)) {
      give_up(requests);
      return missing_ranks(rank, ranks, timeout, "rank 0 is");
    }
  }
  if (std::any_of(missing.begin(), missing.end(), [](char m) { return m != 0; })) {
    return missing_ranks(rank, ranks, timeout, names(missing));
  }
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_idup(MPI_COMM_WORLD, &own, &request);
  const auto made = [&] {
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  };
  if (!look_until(deadline + 2 * kGrace, made)) {
    return missing_ranks(rank, ranks, timeout, "one that had joined went");
  }
  MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  return own;
}

}  // namespace foreload::mpi
