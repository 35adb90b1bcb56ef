program fortran_use_mpi
  use mpi
  implicit none
  integer :: requests(2), status(MPI_STATUS_SIZE)
  include 'body.inc'
end program
