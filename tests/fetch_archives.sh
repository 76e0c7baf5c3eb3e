#!/usr/bin/env bash
# Fetches archives by others for tests/indexes/knowledge/readers/test_real_archives.py, at fixed commits: 12 MB in DIR, no copy in git.
# Usage: tests/fetch_archives.sh [DIR]
set -euo pipefail
target=${1:-$(cd "$(dirname "$0")/.." && pwd)/artifacts/archives}

fetch() {  # NAME URL COMMIT FOLDER...
    local folder="$target/$1" url=$2 commit=$3
    shift 3
    [[ -e "$folder/.complete" ]] && return
    rm -rf "$folder"
    git init --quiet "$folder"
    git -C "$folder" remote add origin "$url"
    git -C "$folder" sparse-checkout set --no-cone "$@"
    git -C "$folder" fetch --quiet --depth 1 --filter=blob:none origin "$commit"
    git -C "$folder" checkout --quiet FETCH_HEAD
    touch "$folder/.complete"
    echo "$folder"
}

fetch zim-testing-suite https://github.com/openzim/zim-testing-suite 91bb9768c2e433e78885082375811f763b9a0c1f \
    '/data/*/invalid.*' '/data/*/small.zim' '/data/*/wikibooks*'
fetch kiwix-js https://github.com/kiwix/kiwix-js 17249dca5c0f6efd3a1ec3ab4770e27a69d42191 \
    /tests/zims/legacy-ray-charles /tests/zims/tonedear
