! Heat on a grid: two arrays of one statement, read and written by turns.
program heat
  implicit none
  integer, parameter :: n = 3400, steps = 10
  real(8), allocatable :: old(:, :), new(:, :)
  integer :: i, j, step
  allocate (old(n, n), new(n, n))
  call random_number(old)
  new = old
  do step = 1, steps
    do j = 2, n - 1
      do i = 2, n - 1
        new(i, j) = 0.25d0*(old(i - 1, j) + old(i + 1, j) + old(i, j - 1) + old(i, j + 1))
      end do
    end do
    old(2:n - 1, 2:n - 1) = new(2:n - 1, 2:n - 1)
  end do
  print *, sum(old)
end program
