package completion

import (
	"fmt"
	"strings"
)

// bash needs nothing but bash: no package of helpers for completions.
func bash(name string, places []place) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Completion of %s for bash, written by \"%s completion bash\".\n\n", name, name)
	b.WriteString("# What may follow a command.\n_NAME_at() {\n  commands='' flags='' valued=''\n  case $1 in\n")
	for _, p := range places {
		fmt.Fprintf(&b, "  '%s')\n    commands='%s'\n    flags='%s'\n    valued='%s'\n    ;;\n", p.path,
			strings.Join(texts(p.commands), " "), strings.Join(texts(p.flags), " "), strings.Join(p.valued, " "))
	}
	b.WriteString("  esac\n}\n\n# What may stand behind a flag of a command, or as its argument of that number.\n" +
		"_NAME_value() {\n  words='' kind=''\n  case $1 in\n")
	for _, a := range byValue(places) {
		fmt.Fprintf(&b, "  %s)\n    words='%s' kind='%s'\n    ;;\n", strings.Join(quoted(a.keys...), "|\\\n  "), strings.Join(a.words, " "), a.kind)
	}
	b.WriteString("  esac\n}\n" + bashWalk)
	return strings.ReplaceAll(b.String(), "NAME", name)
}

// bashWalk goes over the words that were typed. Bash has cut "--flag=value" into three
// words, unless "=" was taken out of its list of separators.
const bashWalk = `
_NAME() {
  local commands flags valued words kind word
  local at=NAME flag='' only='' glued='' number=0 i=1 current=${COMP_WORDS[COMP_CWORD]}
  _NAME_at "$at"
  while ((i < COMP_CWORD)); do
    word=${COMP_WORDS[i]}
    i=$((i + 1))
    if [[ $word == -- ]]; then
      only=arguments
    elif [[ $word == -* && -z $only ]]; then
      if [[ ${COMP_WORDS[i]} == '=' ]]; then
        if ((i + 1 < COMP_CWORD)); then
          i=$((i + 2))
        else
          flag=$word
          break
        fi
      elif [[ " $valued " == *" $word "* ]]; then
        if ((i < COMP_CWORD)); then
          i=$((i + 1))
        else
          flag=$word
        fi
      fi
    elif [[ " $commands " == *" $word "* && -z $only ]]; then
      at="$at $word"
      _NAME_at "$at"
    else
      number=$((number + 1))
    fi
  done
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $current == --*=* && -z $flag && -z $only ]]; then
    flag=${current%%=*}
    glued="$flag="
    current=${current#*=}
  fi

  words='' kind=''
  if [[ -n $flag ]]; then
    _NAME_value "$at $flag"
    if [[ " $valued " != *" $flag "* ]]; then
      words='true false'
    fi
  elif [[ $current == -* && -z $only ]]; then
    words=$flags
  elif [[ -n $commands && -z $only ]]; then
    words=$commands
  else
    _NAME_value "$at $number"
  fi
  local IFS=$'\n'
  case $kind in
  file) COMPREPLY=($(compgen -P "$glued" -f -- "$current")) ;;
  directory) COMPREPLY=($(compgen -P "$glued" -d -- "$current")) ;;
  *) COMPREPLY=($(IFS=' '; compgen -P "$glued" -W "$words" -- "$current")) ;;
  esac
  if [[ -n $kind ]]; then
    compopt -o filenames 2>/dev/null
  fi
}

complete -F _NAME NAME
`
