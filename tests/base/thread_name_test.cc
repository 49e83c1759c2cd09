#include "base/thread_name.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <string>
#include <thread>

namespace beamline::thread_name_test {
namespace {

std::string NameOfThisThread() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

TEST(ThreadNameTest, IsOfTheThreadAlone) {
  const std::string before = NameOfThisThread();
  std::thread([] {
    NameThisThread("a name of nineteen");
    EXPECT_EQ(NameOfThisThread(), "a name of ninet");
  }).join();
  EXPECT_EQ(NameOfThisThread(), before);
}

}  // namespace
}  // namespace beamline::thread_name_test
