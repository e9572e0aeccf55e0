"""Code that nothing reads is left out, and nothing else."""

from __future__ import annotations

from tilewright.targets.cuda.unread import without_unread

TEXT = """\
entry:
  %a1 = add i32 %p, 1
  %a10 = add i32 %a1, 1
  %b = mul i32 %a10, 2
  %c = call i32 @f(i32 %p)
  %d = load i32, ptr %q
  br label %next
next:
  %e = phi i32 [%p, %entry], [%a2, %next]
  %a2 = add i32 %e, 1
  %u = getelementptr i8, ptr %q, i32 %a2
  store i32 %a1, ptr %q
  br i1 %on, label %next, label %end
end:
  ret void"""


def test_what_is_not_read_goes_with_what_it_was_made_of():
    lines = TEXT.split("\n")
    left = without_unread(lines)
    gone = [line.split()[0] for line in lines if line not in left]
    assert gone == ["%a10", "%b", "%u"]
    assert left == [line for line in lines if line in left]
