#include "analyzer/top/screen.h"

#include <fmt/core.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>

// Of the curses library, which calls macros by the names of ours.
#define NCURSES_NOMACROS
#include <curses.h>

namespace ncclwatch::analyzer::top {
namespace {

constexpr int kEscapeDelay_ms = 25;  // after that an escape is the key
constexpr int kCtrlZ = 26;

attr_t AttributesOf(Colour colour) {
  switch (colour) {
    case Colour::kBold: return A_BOLD;
    case Colour::kDim: return A_DIM;
    case Colour::kRed:
    case Colour::kYellow:
    case Colour::kGreen: return has_colors() ? static_cast<attr_t>(COLOR_PAIR(static_cast<int>(colour))) : A_BOLD;
    default: return A_NORMAL;
  }
}

void SetUpColours() {
  if (!MayColour(STDOUT_FILENO) || !has_colors()) return;
  start_color();
  use_default_colors();
  init_pair(static_cast<short>(Colour::kRed), COLOR_RED, -1);
  init_pair(static_cast<short>(Colour::kYellow), COLOR_YELLOW, -1);
  init_pair(static_cast<short>(Colour::kGreen), COLOR_GREEN, -1);
}

// The library ignores SIGTSTP while it draws, and a Ctrl-Z of that moment was lost: it comes as a key instead.
void TakeCtrlZAsKey() {
  termios mode{};
  if (tcgetattr(STDIN_FILENO, &mode) != 0) return;
  mode.c_cc[VSUSP] = _POSIX_VDISABLE;
  if (tcsetattr(STDIN_FILENO, TCSADRAIN, &mode) == 0) def_prog_mode();
}

Press PressOf(int key) {
  switch (key) {
    case KEY_UP: return {Key::kUp};
    case KEY_DOWN: return {Key::kDown};
    case KEY_PPAGE: return {Key::kPageUp};
    case KEY_NPAGE: return {Key::kPageDown};
    case KEY_HOME: return {Key::kHome};
    case KEY_END: return {Key::kEnd};
    case KEY_RESIZE: return {Key::kResize};
    case KEY_BACKSPACE:
    case 127:
    case '\b': return {Key::kBackspace};
    case KEY_ENTER:
    case '\n':
    case '\r': return {Key::kEnter};
    case 27: return {Key::kEscape};
    default: return {Key::kOther, key >= ' ' && key < 127 ? static_cast<char>(key) : '\0'};
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Screen>> Screen::Open() {
  // Names may be in UTF-8: without such a locale the library would show their bytes one by one.
  if (!std::setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
  SCREEN* const screen = newterm(nullptr, stdout, stdin);
  if (!screen) {
    const char* const term = std::getenv("TERM");
    return absl::UnavailableError(
        fmt::format("the terminal \"{}\" (TERM) is unknown here: --once prints without one", term ? term : ""));
  }
  set_term(screen);
  set_escdelay(kEscapeDelay_ms);
  cbreak();
  noecho();
  nonl();
  TakeCtrlZAsKey();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  leaveok(stdscr, TRUE);
  curs_set(0);
  SetUpColours();
  return std::unique_ptr<Screen>(new Screen(screen));
}

Screen::~Screen() {
  endwin();
  delscreen(static_cast<SCREEN*>(screen_));
}

std::size_t Screen::width() const { return static_cast<std::size_t>(getmaxx(stdscr)); }
std::size_t Screen::height() const { return static_cast<std::size_t>(getmaxy(stdscr)); }

void Screen::Show(const Frame& frame) {
  for (std::size_t i = 0; i < frame.lines.size(); ++i) {
    const bool title = frame.reversed_title && i == frame.title;
    const attr_t attributes = title ? A_REVERSE : AttributesOf(frame.lines[i].colour);
    wmove(stdscr, static_cast<int>(i), 0);
    wattrset(stdscr, static_cast<int>(attributes));
    waddnstr(stdscr, frame.lines[i].text.c_str(), -1);
    wattrset(stdscr, A_NORMAL);
    // The last column of the last line cannot be written without moving on: nothing is cleared then.
    if (getcury(stdscr) == static_cast<int>(i)) wclrtoeol(stdscr);
  }
  wclrtobot(stdscr);
  wrefresh(stdscr);
}

Press Screen::Wait(std::chrono::milliseconds within) {
  int key = wgetch(stdscr);
  if (key == ERR) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const int ready = poll(&input, 1, static_cast<int>(within.count()));
    key = wgetch(stdscr);
    if (key == ERR && ready > 0) return {Key::kClosed};
  }
  if (key == kCtrlZ) {
    std::raise(SIGTSTP);  // the library's handler gives the terminal back, and takes it again
    return {};
  }
  return key == ERR ? Press{} : PressOf(key);
}

}  // namespace ncclwatch::analyzer::top
