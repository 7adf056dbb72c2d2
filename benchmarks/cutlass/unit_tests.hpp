// The main function of a program of CUTLASS's unit tests.
int main(int count, char **arguments) {
  FilterArchitecture();
  ::testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
