package completion

import (
	"fmt"
	"strings"
)

// fish asks one function, which prints what may come, a word and a tab and a line
// about it.
func fish(name string, places []place) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Completion of %s for fish, written by \"%s completion fish\".\n", name, name)
	table := func(comment, function string, lines func(p place) []string) {
		fmt.Fprintf(&b, "\n# %s\nfunction __NAME_%s\n  switch $argv[1]\n", comment, function)
		for _, p := range places {
			if rows := lines(p); len(rows) > 0 {
				fmt.Fprintf(&b, "    case '%s'\n      printf '%%s\\n' %s\n", p.path, strings.Join(rows, " \\\n        "))
			}
		}
		b.WriteString("  end\nend\n")
	}
	table("The commands below a command.", "below", func(p place) []string { return tabbed(p.commands) })
	table("The flags of a command.", "flags", func(p place) []string { return tabbed(p.flags) })
	table("Those of them that take a value.", "valued", func(p place) []string { return p.valued })
	b.WriteString("\n# What may stand behind a flag of a command, or as its argument of that number.\nfunction __NAME_value\n  switch $argv[1]\n")
	for _, a := range byValue(places) {
		fmt.Fprintf(&b, "    case %s\n", strings.Join(quoted(a.keys...), " \\\n      "))
		switch a.kind {
		case file:
			b.WriteString("      __fish_complete_path $argv[2]\n")
		case directory:
			b.WriteString("      __fish_complete_directories $argv[2] ''\n")
		default:
			fmt.Fprintf(&b, "      printf '%%s\\n' %s\n", strings.Join(a.words, " "))
		}
	}
	b.WriteString("  end\nend\n" + fishWalk)
	return strings.ReplaceAll(b.String(), "NAME", name)
}

// tabbed joins words and their lines. In fish's single quotes a backslash escapes
// itself and the quote.
func tabbed(words []word) []string {
	list := make([]string, len(words))
	escape := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	for i, w := range words {
		list[i] = "'" + escape.Replace(w.text+"\t"+w.help) + "'"
	}
	return list
}

// fishWalk goes over the words before the cursor.
const fishWalk = `
function __NAME_complete
  set -l at NAME
  set -l flag ''
  set -l only ''
  set -l number 0
  set -l typed (commandline -opc)
  set -e typed[1]
  set -l current (commandline -ct)
  while test (count $typed) -gt 0
    set -l word $typed[1]
    set -e typed[1]
    if test "$word" = --
      set only arguments
    else if test -z "$only"; and string match -q -- '-*' $word
      if contains -- $word (__NAME_valued $at)
        if test (count $typed) -gt 0
          set -e typed[1]
        else
          set flag $word
        end
      end
    else if test -z "$only"; and contains -- $word (__NAME_below $at | string split -f 1 \t)
      set at "$at $word"
    else
      set number (math $number + 1)
    end
  end
  if test -n "$flag"
    __NAME_value "$at $flag" $current
  else if test -z "$only"; and string match -q -- '--*=*' $current
    set -l parts (string split -m 1 = -- $current)
    set -l found (__NAME_value "$at $parts[1]" $parts[2])
    if not contains -- $parts[1] (__NAME_valued $at)
      set found true false
    end
    for one in $found
      echo "$parts[1]=$one"
    end
  else if test -z "$only"; and string match -q -- '-*' $current
    __NAME_flags $at
  else if test -z "$only"; and test (__NAME_below $at | count) -gt 0
    __NAME_below $at
  else
    __NAME_value "$at $number" $current
  end
end

complete -c NAME -f -a '(__NAME_complete)'
`
