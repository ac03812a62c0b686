! Several variables of one statement: how large each is tells which it is.
module state
  implicit none
  type fields
    real(8), allocatable :: first(:), second(:, :)
  end type
  type(fields) :: grid
  integer, allocatable :: kinds(:)
contains
  subroutine prepare(n, failed)
    integer, intent(in) :: n
    integer, intent(out) :: failed
    if (.not. allocated(kinds)) allocate (kinds(n), grid%first(n), &
      grid%second(n, 3), stat=failed)
    kinds = 1
    grid%first = 2
    grid%second = 3
  end subroutine
end module

program in_turn
  use state
  implicit none
  real(8), allocatable :: a(:), b(:), c(:)
  integer :: failed
  allocate (a(20000), b(40000), c(60000))
  a = 1
  b = 2
  c = 3
  call prepare(100000, failed)
  print *, sum(a) + sum(b) + sum(c), sum(kinds), sum(grid%first) + sum(grid%second), failed
end program
