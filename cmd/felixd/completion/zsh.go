package completion

import (
	"fmt"
	"strings"
)

// zsh works as a file named _felixd in a directory of fpath, and sourced.
func zsh(name string, places []place) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %s\n# Completion of %s for zsh, written by \"%s completion zsh\".\n\n", name, name, name)
	b.WriteString("# What may follow a command, with a line about each.\n_NAME_at() {\n  below=() flags=() valued=''\n  case $1 in\n")
	for _, p := range places {
		fmt.Fprintf(&b, "  ('%s')\n    below=(%s)\n    flags=(%s)\n    valued='%s'\n    ;;\n", p.path,
			strings.Join(quoted(described(p.commands)...), "\n      "), strings.Join(quoted(described(p.flags)...), "\n      "), strings.Join(p.valued, " "))
	}
	b.WriteString("  esac\n}\n\n# What may stand behind a flag of a command, or as its argument of that number.\n" +
		"_NAME_value() {\n  values=() kind=''\n  case $1 in\n")
	for _, a := range byValue(places) {
		fmt.Fprintf(&b, "  (%s)\n    values=(%s) kind='%s'\n    ;;\n", strings.Join(quoted(a.keys...), "|\\\n  "), strings.Join(a.words, " "), a.kind)
	}
	b.WriteString("  esac\n}\n" + zshWalk)
	return strings.ReplaceAll(b.String(), "NAME", name)
}

// described joins words and their lines as _describe wants them. A colon ends the
// word, so those in a word would have to be escaped; names have none.
func described(words []word) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = w.text + ":" + w.help
	}
	return list
}

// zshWalk goes over the words that were typed.
const zshWalk = `
_NAME() {
  local at=NAME flag='' only='' kind='' valued='' word
  local -i number=0 i=2
  local -a below flags values
  _NAME_at $at
  while (( i < CURRENT )); do
    word=$words[i]
    (( i++ ))
    if [[ $word == -- ]]; then
      only=arguments
    elif [[ $word == -* && -z $only ]]; then
      if [[ " $valued " == *" $word "* ]]; then
        if (( i < CURRENT )); then
          (( i++ ))
        else
          flag=$word
        fi
      fi
    elif [[ -n ${below[(r)$word:*]} && -z $only ]]; then
      at="$at $word"
      _NAME_at $at
    else
      (( number++ ))
    fi
  done
  word=$words[CURRENT]
  if [[ $word == --*=* && -z $flag && -z $only ]]; then
    flag=${word%%=*}
    compset -P 1 '*='
  fi

  if [[ -n $flag ]]; then
    _NAME_value "$at $flag"
    if [[ " $valued " != *" $flag "* ]]; then
      values=(true false)
    fi
  elif [[ $word == -* && -z $only ]]; then
    _describe -o flag flags
    return
  elif (( ${#below} )) && [[ -z $only ]]; then
    _describe command below
    return
  else
    _NAME_value "$at $number"
  fi
  case $kind in
  (file) _files ;;
  (directory) _files -/ ;;
  (*) compadd -a values ;;
  esac
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _NAME "$@"
else
  compdef _NAME NAME
fi
`
